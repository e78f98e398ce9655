-- locks: jobs, for a moment
-- how many characters of its log a worker over HTTP has said, where log_end is not null
alter table jobs add column log_said integer;
