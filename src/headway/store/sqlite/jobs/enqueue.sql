-- name: positions
-- first, so that it takes the write lock; also says whether any quota, fair queue or inactive kind has to be checked
update counters
set value = value + 1024 * ?1
where name = 'position'
returning
  value,
  exists (
    select 1
    from limits indexed by limits_quotas
    where coalesce(max_pending, max_bytes, max_group, max_fan_out) is not null
  ),
  exists (select 1 from queues indexed by queues_fair where fair = 1),
  exists (select 1 from definitions indexed by definitions_inactive where active = 0);

-- name: inactive
select kind
from definitions indexed by definitions_inactive
where active = 0
  and kind in (select value from json_each(?1))
order by kind;

-- name: fair
select name
from queues indexed by queues_fair
where fair = 1;
