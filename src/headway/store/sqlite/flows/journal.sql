-- Differs because what counts of a journal is decided in Python, under the write lock.

-- name: lines
select seq, fence, kind, place, signal, case kind when 'cut' then value when 'forgotten' then value when 'called' then value ->> 'id' end
from flow_journal
where job_id = ?1
order by seq;

-- name: give_back
update signals
set fence = null,
  consumed_at = null
where id in (select value from json_each(?2))
  and job_id = ?1
  and name not in ('$cancel', '$child');

-- name: forgotten
insert into flow_journal (job_id, seq, fence, kind, place, value, at)
values (?1, ?2, ?3, 'forgotten', '', ?4, ?5);

-- name: withdraw_cancel
delete from signals
where job_id = ?1
  and dedup_key = '$cancel'
  and name = '$cancel';

-- name: call_again
update edges
set state = 'pending'
where child_id = ?1
  and fence = -1
  and state in ('done', 'failed')
  and exists (
    select 1
    from jobs
    where jobs.id = edges.parent_id
      and jobs.finished_at is null
  );
