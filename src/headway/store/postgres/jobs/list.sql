-- Lists of jobs for people and programs that speak SQL.

-- The newest jobs that match, newest first; a filter that is null is none. before: the id of the last one of the page
-- before. Row-level security applies: a login of an application sees its own tenant's jobs only, the owner and workers
-- those of all tenants, or of the one that is given. Neither security definer nor with settings of its own, so that it is
-- inlined and planned with the filters that are given.
create function headway.list(
  status text[] default null,
  kind text[] default null,
  queue text[] default null,
  tenant uuid default null,
  "group" uuid default null,
  train text default null,
  tag text default null,
  correlation_id text default null,
  unique_key text default null,
  created_after timestamptz default null,
  created_before timestamptz default null,
  before uuid default null,
  "limit" integer default 50,
  error text default null
) returns setof headway.jobs
language sql stable
as $$
  select j.*
    from headway.jobs j
   where (list.status is null or j.status = any (list.status))
     and (list.kind is null or j.kind = any (list.kind))
     and (list.queue is null or j.queue = any (list.queue))
     and (list.tenant is null or j.tenant_id = list.tenant)
     and (list."group" is null or j.group_id = list."group")
     and (list.train is null or j.train = list.train)
     and (list.tag is null
          or exists (select from headway.job_tags t where t.tag = list.tag and t.job_id = j.id))
     and (list.error is null
          or exists (
               select
                 from headway.job_errors e
                where e.fingerprint = list.error
                  and e.job_id = j.id
                  and e.fence = j.fence - (j.status = 'running')::integer))
     and (list.correlation_id is null or j.correlation_id = list.correlation_id)
     and (list.unique_key is null or j.unique_key = list.unique_key)
     and (list.created_after is null or j.created_at >= list.created_after)
     and (list.created_before is null or j.created_at < list.created_before)
     and (list.before is null or j.id < list.before)
   order by j.id desc
   limit list."limit"
$$;
