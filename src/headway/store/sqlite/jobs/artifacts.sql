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

-- name: refers
select tenant_id
from jobs
where id = ?1
  and payload = ?2;

-- name: give_up
-- another job has its key, or the job has got another payload since: nobody will keep these bytes
update artifact_trash
set job_id = null
where id = ?1;

-- name: give_up_payloads
update artifact_trash
set job_id = null
where fence = 0
  and job_id is not null
  and since < ?1;

-- name: take_payload
delete from artifact_trash
where id = ?1
  and job_id is not null
  and fence = 0
returning store, path;

-- name: delete_payload
delete from artifacts
where job_id = ?1
  and fence = 0
returning id, store, path;

-- name: payload
select {columns}
from artifacts
where job_id = ?1
  and fence = 0
  and (?2 is null or tenant_id = ?2)
  and exists (
    select 1
    from jobs
    where jobs.id = artifacts.job_id
      and jobs.payload = '{"$artifact":"' || artifacts.id || '"}'
  );

-- name: copy_payloads
insert into artifacts (id, tenant_id, job_id, fence, name, content_type, size, sha256, store, path, created_at)
select
  value ->> 1, old.tenant_id, value ->> 1, 0, old.name, old.content_type, old.size, old.sha256, old.store, old.path, ?2
from json_each(?1)
join artifacts as old
  on old.job_id = value ->> 0
  and old.fence = 0
join jobs
  on jobs.id = old.job_id
  and jobs.payload = '{"$artifact":"' || old.id || '"}'
returning id;

-- name: refer
update jobs
set payload = ?2
where id = ?1;

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
-- no attempt ever runs again under the same fence. What follows the @ in a store's name is for people only
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
  and (job_id is null or fence <> 0)
  -- the payload of a job and of those that retried it as new ones
  and not exists (
    select 1
    from artifacts
    where artifacts.path = artifact_trash.path
      and artifacts.fence = 0
  )
order by id
limit ?2;

-- name: empty
delete from artifact_trash
where id in (select value from json_each(?1));
