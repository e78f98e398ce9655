-- locks: jobs, for a moment
-- how many characters of its log a worker over HTTP has said, where log_end is not null
alter table headway.jobs add column log_said bigint;
