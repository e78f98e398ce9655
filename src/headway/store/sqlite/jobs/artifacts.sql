-- Artifacts: rows about bytes that are elsewhere.

-- part: columns
id, tenant_id, job_id, fence, name, content_type, size, sha256, store, path, created_at

-- name: runs
select tenant_id
from jobs
where id = ?1
  and fence = ?2
  and status = 'running';

-- name: name_taken
select exists (
  select 1
  from artifacts
  where job_id = ?1
    and fence = ?2
    and name = ?3
    and id <> ?4
);

-- name: begin
insert into artifact_trash (id, job_id, fence, store, path, since)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (id) do nothing;

-- name: kept
select {columns}
from artifacts
where id = ?1
  and job_id = ?2;

-- name: take_from_trash
delete from artifact_trash
where id = ?1;

-- name: keep
insert into artifacts (id, tenant_id, job_id, fence, name, content_type, size, sha256, store, path, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
returning {columns};

-- name: one
select {columns}
from artifacts
where id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: of_a_job
select {columns}
from artifacts
where job_id = ?1
  and (?2 is null or tenant_id = ?2)
order by fence, id;

-- name: page
select {columns}
from artifacts
where (?1 is null or tenant_id = ?1)
  and (?2 is null or job_id = ?2)
  and (?3 is null or id < ?3)
order by id desc
limit ?4;

-- name: delete
delete from artifacts
where job_id in (select value from json_each(?1))
returning id, store, path;

-- name: throw_away
insert into artifact_trash (id, store, path, since)
values (?1, ?2, ?3, ?4);

-- name: trash
-- no attempt ever runs again under the same fence. A store's name goes on after its @ with what people read
select id, store, path
from artifact_trash
where substr(store, 1, instr(store || '@', '@') - 1) in (select value from json_each(?1))
  and not exists (
    select 1
    from jobs
    where jobs.id = artifact_trash.job_id
      and jobs.fence = artifact_trash.fence
      and jobs.status = 'running'
  )
order by id
limit ?2;

-- name: empty
delete from artifact_trash
where id in (select value from json_each(?1));
