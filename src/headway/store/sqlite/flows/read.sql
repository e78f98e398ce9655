-- Differs because rows are read in pieces, as many as fit.

-- name: journal
select job_id, seq, fence, kind, place, value, error, print, at, took_ms, signal
from flow_journal
where job_id = ?1
  and seq > ?2
  and (?4 is null or exists (select 1 from jobs where jobs.id = ?1 and jobs.tenant_id = ?4))
order by seq
limit ?3;

-- name: news
-- of these flows, those that this worker runs and that have unread signals
select id
from jobs
where id in (select value from json_each(?1))
  and status = 'running'
  and worker_id = ?2
  and exists (
    select 1
    from signals indexed by signals_job
    where job_id = jobs.id
      and fence is null
  );
