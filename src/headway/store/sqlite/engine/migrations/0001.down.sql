-- Removes everything that 0001.up.sql made, with all jobs.

drop table store_transfers;

drop table job_errors;

drop table errors;

drop table error_deltas;

drop table stats;

drop table stat_deltas;

drop table job_lists;

drop table requests;
drop table sessions;

drop table api_keys;

drop table events;

drop table fires;

drop table triggers;

drop table connector_configs;

drop table templates;

drop table definitions;

drop table signals;

drop table reservations;

drop table buckets;

drop table limits;

drop table groups;

drop table edges;

drop table holds;
drop table arrivals;

drop table audit;

drop table workers;

drop table artifact_trash;

drop table artifacts;

drop table worker_claims;

drop table attempts;

drop table unique_windows;

drop table job_tags;

drop table jobs;

drop table counters;

drop table queues;

drop table tenants;

drop table retired_slugs;
