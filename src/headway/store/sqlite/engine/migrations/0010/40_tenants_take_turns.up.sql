-- locks: the file, for as long as the unfinished jobs of tenants take to be marked
-- Tenants of a queue take turns by default.
-- somebody said that they do not
alter table queues add column unfair integer not null default 0;

-- the default tenant apart, jobs are in the index of tenants from the start
update jobs indexed by jobs_tenant
set fair = 1
where tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
  and status in ('queued', 'scheduled', 'held', 'running', 'waiting')
  and fair = 0;
