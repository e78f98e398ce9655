-- name: due
select key
from buckets indexed by buckets_wake
where wake_at <= ?1
order by wake_at
limit ?2;

-- name: next_refill
select min(wake_at)
from buckets indexed by buckets_wake
where wake_at is not null;

-- name: set_refill
update buckets
set wake_at = ?2
where key = ?1;
