-- The id at which a search has walked over this many rows of the index that a statement of find.sql walks: the same
-- conditions, without the filter. Parameters: ?1 tenant, ?2 status, ?3 tag, ?4 fingerprint, ?5 cursor, ?6 how many. What
-- follows the cursor, and the order, are appended.

-- name: every
select jobs.id
from jobs
where true;

-- name: range
select jobs.id
from jobs
where true;

-- name: tenant
select jobs.id
from jobs indexed by jobs_tenant
where jobs.tenant_id = ?1
  and jobs.tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
  and jobs.status = ?2;

-- name: listed
select jobs.id
from jobs indexed by jobs_listed
where jobs.status = ?2
  and jobs.status <> 'queued'
  and jobs.status <> 'running';

-- name: tagged
select tagged.job_id
from job_tags as tagged
where tagged.tag = ?3;

-- name: tagged_of_tenant
select tagged.job_id
from job_tags as tagged indexed by job_tags_tenant
where tagged.tenant_id = ?1
  and tagged.tenant_id <> 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc'
  and tagged.tag = ?3;

-- name: erred
select erred.job_id
from job_errors as erred indexed by job_errors_fingerprint
where erred.fingerprint = ?4;
