-- name: insert
insert into stat_deltas (
  at, tenant_id, queue, kind, enqueued, succeeded, failed, retried, dead, canceled, lost, ended, waits, runs
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14);

-- name: last
insert into stat_deltas (at, tenant_id, queue, kind, enqueued)
select ?2, tenant_id, queue, kind, count(*)
from (
  select tenant_id, queue, kind
  from jobs
  order by rowid desc
  limit ?1
)
group by tenant_id, queue, kind;

-- name: canceled
insert into stat_deltas (at, tenant_id, queue, kind, canceled)
select ?2, tenant_id, queue, kind, count(*)
from jobs
where rowid in (select value from json_each(?1))
group by tenant_id, queue, kind;

-- name: copies
insert into stat_deltas (at, tenant_id, queue, kind, enqueued)
select ?2, tenant_id, queue, kind, count(*)
from jobs
where rowid in (select value from json_each(?1))
group by tenant_id, queue, kind;
