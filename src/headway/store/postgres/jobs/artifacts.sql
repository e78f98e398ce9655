-- Artifacts: rows about bytes that are elsewhere. Whoever writes bytes notes them as trash first, so that none are ever
-- unknown; keeping them takes them off that list, under the fence of their attempt.

-- Lock the row of a running attempt, so that it does not end meanwhile; gives its tenant. Raises HW002.
create function headway.lock_attempt(p_job_id uuid, p_fence integer) returns uuid
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
begin
  select j.tenant_id
    into v_tenant
    from headway.jobs j
   where j.id = p_job_id
     and j.fence = p_fence
     and j.status = 'running'
     for share;
  if not found then
    raise exception 'job % does not run under fence % any more: this worker lost its claim, and the job may run elsewhere; nothing was written: roll back', p_job_id, p_fence
      using errcode = 'HW002';
  end if;
  return v_tenant;
end
$$;

-- Raises HW003 if this attempt has another artifact of that name.
create function headway.refuse_artifact_name(p_id uuid, p_job_id uuid, p_fence integer, p_name text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if exists (select from headway.artifacts a
              where a.job_id = p_job_id and a.fence = p_fence and a.name = p_name and a.id <> p_id) then
    raise exception 'attempt % of job % has an artifact "%" already: nothing was stored; give each a name of its own', p_fence, p_job_id, p_name
      using errcode = 'HW003';
  end if;
end
$$;

-- Note that a running attempt is about to write bytes there. Locks its job's row for a moment. Raises HW002 if it does not
-- run any more, HW003 if it has an artifact of that name.
create function headway.begin_artifact(p_id uuid, p_job_id uuid, p_fence integer, p_name text, p_store text, p_path text)
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform headway.lock_attempt(p_job_id, p_fence);
  perform headway.refuse_artifact_name(p_id, p_job_id, p_fence, p_name);
  insert into headway.artifact_trash (id, job_id, fence, store, path, since)
  values (p_id, p_job_id, p_fence, p_store, p_path, headway.now())
  on conflict (id) do nothing;
end
$$;

-- Make whole bytes an artifact of the attempt that wrote them; repeated, it is the same one. Locks its job's row first,
-- which the attempt's end waits for. Raises HW002, HW003 as begin_artifact does.
create function headway.keep_artifact(
  p_id uuid, p_job_id uuid, p_fence integer, p_name text, p_content_type text, p_size bigint, p_sha256 text, p_store text,
  p_path text)
returns setof headway.artifacts
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid;
begin
  return query select * from headway.artifacts a where a.id = p_id and a.job_id = p_job_id;
  if found then
    return;
  end if;
  v_tenant := headway.lock_attempt(p_job_id, p_fence);
  perform headway.refuse_artifact_name(p_id, p_job_id, p_fence, p_name);
  delete from headway.artifact_trash t where t.id = p_id;
  return query
  insert into headway.artifacts as a
    (id, tenant_id, job_id, fence, name, content_type, size, sha256, store, path, created_at)
  values (p_id, v_tenant, p_job_id, p_fence, p_name, p_content_type, p_size, p_sha256, p_store, p_path, headway.now())
  returning a.*;
end
$$;

-- Delete the artifacts of jobs that are being deleted; their bytes become trash. One probe where there are none at all.
create function headway.delete_artifacts(p_ids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from headway.artifacts limit 1;
  if found then
    with gone as (
      delete from headway.artifacts a where a.job_id = any (p_ids) returning a.id, a.store, a.path
    )
    insert into headway.artifact_trash (id, store, path, since)
    select g.id, g.store, g.path, headway.now() from gone g;
  end if;
end
$$;

-- Bytes in these stores that no artifact has and none can have any more: deleted ones, and those of an attempt that does
-- not run: no attempt ever runs again under the same fence. A store's name goes on after its @ with what people read.
create function headway.trash(p_stores text[], p_limit integer) returns table (id uuid, store text, path text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.id, t.store, t.path
    from headway.artifact_trash t
   where split_part(t.store, '@', 1) = any (p_stores)
     and not exists (select from headway.jobs j
                      where j.id = t.job_id and j.fence = t.fence and j.status = 'running')
   order by t.id
   limit p_limit
$$;

-- These bytes are gone.
create function headway.empty_trash(p_ids uuid[]) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  delete from headway.artifact_trash t where t.id = any (p_ids)
$$;
