-- name: consume
update signals
set fence = ?3,
  consumed_at = ?4
where id = ?1
  and job_id = ?2
  and fence is null;

-- name: inbox
-- unconsumed signals, in order of arrival
select job_id, seq, name
from signals indexed by signals_job
where job_id in (select value from json_each(?1))
  and fence is null
order by job_id, seq;

-- name: received
select seq, job_id, id, name, payload, sent_at, dedup_key, trace_id
from signals
where seq in (select value from json_each(?1));

-- part: bytes
-- of one job's unread signals, read one by one and no further than INBOX_BYTES and INBOX_SIGNALS
(
  with recursive unread (seq, bytes, n) as (
    values (0, 0, 0)
    union all
    select signals.seq, bytes + length(cast(signals.payload as blob)), n + 1
    from unread
    join signals on signals.seq = (
      select min(next.seq)
      from signals as next indexed by signals_job
      where next.job_id = jobs.id
        and next.fence is null
        and next.seq > unread.seq
    )
    where bytes < 8388608
      and n < 1000
  )
  select min(max(bytes), 8388608)
  from unread
)

-- name: names
select distinct job_id, name
from signals indexed by signals_job
where job_id in (select value from json_each(?1))
  and fence is null;

-- name: move
update signals
set job_id = ?2
where job_id = ?1
  and fence is null;

-- name: give_back
-- a retried machine gets back the signals that its last execution consumed
update signals
set fence = null,
  consumed_at = null
where job_id = ?1
  and fence = ?2;
