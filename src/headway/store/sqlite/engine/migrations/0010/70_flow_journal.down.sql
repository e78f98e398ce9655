drop table flow_journal;
