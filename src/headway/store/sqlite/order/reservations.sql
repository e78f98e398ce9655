-- Differs because a claim checks reservations under the write lock, so no claim is under way when one is granted.

-- name: reserve
insert into reservations (queue, id, holder, since, expires_at)
values (?1, ?2, ?3, ?4, ?5)
on conflict (queue) do update
set holder = excluded.holder,
  expires_at = excluded.expires_at
where reservations.id = excluded.id;

-- name: any_expired
select exists (
  select 1
  from reservations
  where expires_at <= ?1
);

-- name: expired
delete from reservations
where expires_at <= ?1
returning queue, holder;

-- name: reservation
select queue, id, holder, since, expires_at
from reservations
where queue = ?1;

-- name: unreserve
delete from reservations
where queue = ?1
  and id = ?2
returning holder;

-- name: reservations
select queue, id, holder, since, expires_at
from reservations
where expires_at > ?1
order by queue;

-- name: running_in
select count(*)
from jobs indexed by jobs_running
where status = 'running'
  and queue = ?1;
