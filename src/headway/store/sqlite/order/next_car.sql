-- Differs because writers are serial: the next car is found in the transaction that ends the locomotive.

-- part: is_locomotive
-- as the index of locomotives has it
(status = 'queued' or status = 'running' or status = 'scheduled' or status = 'waiting')

-- name: busy
-- of these trains, those that have an unfinished car or are on hold
select key.value ->> 0, key.value ->> 1
from json_each(?1) as key
where exists (
    select 1
    from jobs indexed by jobs_locomotive
    where tenant_id = key.value ->> 0
      and train = key.value ->> 1
      and {is_locomotive}
  )
  or exists (
    select 1
    from jobs indexed by jobs_held
    where tenant_id = key.value ->> 0
      and train = key.value ->> 1
      and status = 'held'
  )
  or exists (
    select 1
    from holds
    where tenant_id = key.value ->> 0
      and train = key.value ->> 1
  );

-- name: heads
-- the first cars that can go now: the train has no locomotive and no hold, and the car has no `after` left
select
  head.rowid, head.tenant_id, head.train, {order/held_jobs.goes_to}, head.unique_key, head.unique_scope
from json_each(?1) as key
join jobs as head
  on head.rowid = (
    select rowid
    from jobs indexed by jobs_held
    where tenant_id = key.value ->> 0
      and train = key.value ->> 1
      and status = 'held'
    order by position, id
    limit 1
  )
where head.pending = 0
  and not exists (
    select 1
    from jobs indexed by jobs_locomotive
    where tenant_id = key.value ->> 0
      and train = key.value ->> 1
      and {is_locomotive}
  )
  and not exists (
    select 1
    from holds
    where tenant_id = key.value ->> 0
      and train = key.value ->> 1
  );

-- name: next
-- fast path: the same behind locomotives that have just ended
select head.rowid, {order/held_jobs.goes_to}, head.unique_key, head.unique_scope
from json_each(?1) as ended
join jobs as locomotive
  on locomotive.rowid = ended.value
join jobs as head
  on head.rowid = (
    select rowid
    from jobs indexed by jobs_held
    where tenant_id = locomotive.tenant_id
      and train = locomotive.train
      and status = 'held'
    order by position, id
    limit 1
  )
where head.pending = 0
  and not exists (
    select 1
    from holds
    where tenant_id = locomotive.tenant_id
      and train = locomotive.train
  );

-- name: hold
insert into holds (tenant_id, train, since, job_id, reason, actor)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict do nothing;

-- name: end_hold
delete from holds
where tenant_id = ?1
  and train = ?2
  and (?3 is null or job_id = ?3)
returning train;
