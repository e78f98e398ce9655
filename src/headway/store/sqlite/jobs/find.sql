-- Differs because the ids of a page are read first, by the index that suits its filter, and then the jobs. What follows
-- the cursor, and the order, are appended: they are the same for each of these.

-- part: matches
(?1 is null or jobs.tenant_id = ?1)
and (?2 is null or jobs.status = ?2)
and (?3 is null or jobs.kind in (select value from json_each(?3)))
and (?4 is null or jobs.queue = ?4)
and (?5 is null or jobs.source in (select value from json_each(?5)))
and (?6 is null or jobs.correlation_id = ?6)
and (?7 is null or jobs.unique_key = ?7)
and (?8 is null or jobs.retry_of = ?8)
and (?9 is null or jobs.group_id in (select value from json_each(?9)))
and (?10 is null or jobs.parent_id = ?10)
and (?11 is null or jobs.created_at > ?11)
and (?12 is null or jobs.created_at < ?12)
and (?13 is null or jobs.tags is not null and not exists (
  select 1
  from json_each(?13) as wanted
  where wanted.value not in (select value from json_each(jobs.tags))
))
and (?14 is null or jobs.tags is not null and exists (
  select 1
  from json_each(?14) as wanted
  where wanted.value in (select value from json_each(jobs.tags))
))
and (?15 is null or json_valid(jobs.meta) and not exists (
  select 1
  from json_each(?15) as wanted
  where not coalesce(
    instr(json_extract(wanted.value, '$[1]'), json_type(jobs.meta, json_extract(wanted.value, '$[0]'))) > 0
    and json_extract(jobs.meta, json_extract(wanted.value, '$[0]')) is json_extract(wanted.value, '$[2]'), 0
  )
))
and (?16 is null or jobs.train in (select value from json_each(?16)))
and (?17 is null or jobs.id >= ?17)
and (?18 is null or jobs.id <= ?18)
and (?19 is null or jobs.id in (select value from json_each(?19)))
and (
  ?20 is null
  or exists (
    select 1
    from job_errors
    where job_id = jobs.id
      and fingerprint = ?20
      and fence = jobs.fence - (jobs.status = 'running')
  )
  or jobs.id || '/' || (jobs.fence - (jobs.status = 'running')) in (select value from json_each(?21))
)

-- name: named
select jobs.id, jobs.priority, jobs.position
from json_each(?19) as wanted
cross join jobs
where jobs.id = wanted.value
  and {matches};

-- name: range
select jobs.id, jobs.priority, jobs.position
from jobs
where jobs.id between ?17 and ?18
  and {matches};

-- name: every
select jobs.id, jobs.priority, jobs.position
from jobs
where {matches};

-- name: tenant
-- one status of a tenant
select jobs.id, jobs.priority, jobs.position
from jobs indexed by jobs_tenant
where jobs.tenant_id = ?1
  and jobs.tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
  and jobs.status = ?2
  and {matches};

-- name: listed
select jobs.id, jobs.priority, jobs.position
from jobs indexed by jobs_listed
where jobs.status = ?2
  and jobs.status <> 'queued'
  and jobs.status <> 'running'
  and {matches};

-- name: running
select jobs.id, jobs.priority, jobs.position
from jobs indexed by jobs_running
where jobs.status = 'running'
  and {matches};

-- name: retries
select jobs.id, jobs.priority, jobs.position
from jobs
where jobs.retry_of = ?8
  and {matches};

-- name: members
select jobs.id, jobs.priority, jobs.position
from jobs indexed by jobs_group
where jobs.group_id in (select value from json_each(?9))
  and {matches};

-- name: spawned
select jobs.id, jobs.priority, jobs.position
from jobs indexed by jobs_children
where jobs.parent_id = ?10
  and {matches};

-- name: tagged
select jobs.id, jobs.priority, jobs.position
from job_tags as tagged
cross join jobs
where tagged.tag = ?22
  and jobs.id = tagged.job_id
  and {matches};

-- name: tagged_of_tenant
select jobs.id, jobs.priority, jobs.position
from job_tags as tagged indexed by job_tags_tenant
cross join jobs
where tagged.tenant_id = ?1
  and tagged.tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
  and tagged.tag = ?22
  and jobs.id = tagged.job_id
  and {matches};

-- name: erred
select jobs.id, jobs.priority, jobs.position
from job_errors as erred indexed by job_errors_fingerprint
cross join jobs
where erred.fingerprint = ?20
  and jobs.id = erred.job_id
  and {matches};

-- name: erred_lately
-- executions that are not noted as this error's yet
select jobs.id, jobs.priority, jobs.position
from json_each(?21) as wanted
cross join jobs
where jobs.id = substr(wanted.value, 1, 36)
  and {matches};

-- name: line
-- a queue's line as claims walk it
select jobs.id, jobs.priority, jobs.position
from jobs indexed by jobs_claim
where jobs.status = 'queued'
  and jobs.limited_by is null
  and jobs.queue = ?4
  and {matches};

-- name: aside
-- jobs of that line that a limit keeps out of the claims' sight
select jobs.id, jobs.priority, jobs.position
from jobs indexed by jobs_aside
where jobs.limited_by is not null
  and jobs.queue = ?4
  and {matches};
