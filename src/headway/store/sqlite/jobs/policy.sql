-- Differs because the policy is the model's: the rows are read, judged in Python, and settled.

-- name: running
select id, fence, tries, losses, max_attempts, backoff_base_ms, backoff_cap_ms, delivery,
  coalesce(version, step) is not null
from jobs
where id in (select value from json_each(?1))
  and status = 'running'
  and worker_id = ?2
  and (?3 is null or tenant_id = ?3);

-- name: verdicts
-- where jobs are whose executions this worker has ended in one of these statuses
select attempts.job_id, attempts.fence, jobs.status
from attempts
join jobs on jobs.id = attempts.job_id
where attempts.job_id in (select value from json_each(?1))
  and attempts.worker_id = ?2
  and attempts.status in (select value from json_each(?3))
  and (?4 is null or jobs.tenant_id = ?4);
