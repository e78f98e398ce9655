-- Outcomes that handlers commit with their own rows.

-- Write the outcome of a running job into its row, in the caller's own transaction: once that has committed,
-- the job is settled by this outcome (settle_committed). Nothing follows from it before. Locks only that row, which
-- nobody but its own worker, the reaper and an operator's cancel ever needs.
-- Raises HW002 if the job does not run under this fence any more, HW003 if it has an outcome already, HW006 if there is
-- no such job, and 55P03 if another transaction of the handler has the row locked.
create function headway.commit_outcome(p_id uuid, p_fence integer, p_outcome json) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s' -- our own transactions have the row for a moment; a second one of the handler would wait forever
as $$
declare
  v_given boolean;
begin
  update headway.jobs j
     set committed = p_outcome
   where j.id = p_id
     and j.fence = p_fence
     and (j.status = 'running') is true
     and j.committed is null;
  if found then
    return;
  end if;
  select j.fence = p_fence and j.status = 'running' and j.committed is not null
    into v_given
    from headway.jobs j
   where j.id = p_id;
  if not found then
    raise exception 'the database of conn= has no job %: nothing was written; pass a connection to the database that Headway''s URL names', p_id
      using errcode = 'HW006';
  end if;
  if v_given then
    raise exception 'job % has its outcome already, from this transaction or from one that was committed: nothing was written; settle once', p_id
      using errcode = 'HW003';
  end if;
  raise exception 'job % does not run under fence % any more: this worker lost its claim, and the job may run elsewhere; nothing was written: roll back', p_id, p_fence
    using errcode = 'HW002';
end
$$;

-- Take the committed outcomes of these claims out of their rows, for the caller to settle in this transaction. Locks the
-- rows in order of id; waits for them no longer than settle does (55P03).
create function headway.take_committed(p_ids uuid[], p_fences integer[]) returns table (worker_id uuid, outcome text)
language sql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '250ms'
as $$
  with taken as materialized (
    select j.id, j.committed
      from unnest(p_ids, p_fences) as u (id, fence)
      join headway.jobs j on j.id = u.id and j.fence = u.fence
     where (j.status = 'running') is true
       and j.committed is not null
     order by j.id
       for update of j
  )
  update headway.jobs j
     set committed = null
    from taken t
   where j.id = t.id
  returning j.worker_id, t.committed::text
$$;
