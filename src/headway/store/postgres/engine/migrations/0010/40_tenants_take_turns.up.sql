-- locks: queues, for a moment
-- Tenants of a queue take turns by default. unfair: somebody said that they do not. fair_again: as fair_since, for the
-- second look
alter table headway.queues add column unfair boolean not null default false, add column fair_again xid8;

-- the default tenant apart, jobs are in the index of tenants from the start; those of before get in by the first claims
insert into headway.queues as q (name, fair, fair_since, fair_again)
select distinct j.queue, true, pg_current_xact_id(), pg_current_xact_id()
  from headway.jobs j
 where j.tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
   and j.status in ('queued', 'scheduled', 'held', 'running', 'waiting')
on conflict (name) do update
  set fair = true, fair_since = excluded.fair_since, fair_again = excluded.fair_again
  where not q.fair;
