alter table headway.queues drop column unfair, drop column fair_again;
