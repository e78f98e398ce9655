-- name: buckets
select key, at, tokens, starts
from buckets
where key in (select value from json_each(?1));

-- name: fill
-- a bucket's tokens, and when it has one again for jobs that wait for it
insert into buckets (key, tokens, at, full_at, wake_at, starts)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (key) do update
set tokens = excluded.tokens,
  at = excluded.at,
  full_at = excluded.full_at,
  starts = excluded.starts,
  wake_at = coalesce(excluded.wake_at, wake_at);

-- name: due
select key
from buckets indexed by buckets_wake
where wake_at <= ?1
order by wake_at
limit ?2;

-- name: next_wake
select min(wake_at)
from buckets indexed by buckets_wake
where wake_at is not null;

-- name: wake
update buckets
set wake_at = ?2
where key = ?1;

-- name: empty_full
delete from buckets
where key in (
  select key
  from buckets indexed by buckets_full
  where full_at <= ?1
    and wake_at is null
  order by full_at
  limit ?2
);
