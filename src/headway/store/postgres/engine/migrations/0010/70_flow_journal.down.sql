drop table headway.flow_journal;
