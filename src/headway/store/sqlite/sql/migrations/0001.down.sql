-- Removes everything that 0001.up.sql made, with all jobs.

drop table audit;

drop table workers;

drop table attempts;

drop table jobs;

drop table counters;

drop table queues;

drop table tenants;
