-- Forks: a machine that begins where another one was.

-- Record, once, where a fork begins, and audit it. p_joined is the machine that spawned the children that it sees.
create function headway.forked(p_id uuid, p_actor text default null, p_joined uuid default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope uuid := headway.acting_tenant(null);
begin
  update headway.jobs j
     set began = headway.began(j, p_joined)
   where j.id = p_id
     and (v_scope is null or j.tenant_id = v_scope)
     and j.forked_from is not null
     and j.began is null
     and j.fence = 0;
  insert into headway.audit (tenant_id, job_id, at, actor, action, detail)
  select j.tenant_id, j.id, headway.now(), p_actor, 'fork', j.forked_from::text
    from headway.jobs j
   where j.id = p_id
     and (v_scope is null or j.tenant_id = v_scope)
     and not exists (select from headway.audit a where a.job_id = p_id and a.action = 'fork');
end
$$;

-- Where a machine that has not run begins, as JSON of Began in model/machine.py. Put together as text, which keeps the
-- state as it was written.
create function headway.began(p_job headway.jobs, p_joined uuid) returns json
language sql stable
as $$
  select ('{' || pg_catalog.concat_ws(
    ',',
    '"version":' || p_job.version,
    '"state":' || p_job.state,
    '"joining":' || p_job.joining,
    '"joined":"' || p_joined || '"'
  ) || '}')::json
$$;
