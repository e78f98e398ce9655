-- Back to version 2, which knows no machines: those that are not over are canceled, their state and signals are lost.

do $$
declare
  v_now timestamptz := headway.now();
  v_job headway.jobs;
  v_ids uuid[];
  v_why text := 'canceled because schema version 2 knows no machines';
begin
  -- not by end_attempts: the functions may be of a later version, whose columns are gone
  for v_job in
    select j.*
      from headway.jobs j
     where j.status = 'running'
       and j.step is not null
     order by j.id
       for update
  loop
    insert into headway.attempts (
      job_id, tenant_id, fence, status, started_at, finished_at, worker_id, error, stdout_tail, step, version, woken)
    values (
      v_job.id, v_job.tenant_id, v_job.fence, 'canceled', v_job.attempt_started_at, v_now, v_job.worker_id, v_why,
      v_job.log_tail, v_job.step, v_job.version, v_job.woken);
    begin
      update headway.jobs j set status = 'canceled' where j.id = v_job.id;
    exception when unique_violation then
      update headway.jobs j set status = 'canceled', unique_key = null where j.id = v_job.id;
    end;
    update headway.jobs j
       set error = v_why, finished_at = v_now, worker_id = null, attempt_started_at = null,
           cancel_requested_at = null, cancel_reason = null
     where j.id = v_job.id;
    v_ids := v_ids || v_job.id;
  end loop;
  if v_ids is not null then
    perform headway.follow(v_ids, v_now, true);
    perform headway.tell(v_ids);
  end if;
  select array_agg(j.id)
    into v_ids
    from (select j.id
            from headway.jobs j
           where j.status in ('queued', 'scheduled', 'held', 'waiting')
             and (j.step is not null or j.status = 'waiting')
           order by j.id
             for update) j;
  if v_ids is not null then
    perform headway.end_early(u.id, v_why, v_now)
       from unnest(v_ids) as u (id);
    perform headway.follow(v_ids, v_now, false);
  end if;
end
$$;

-- the same list as model/status.py
create or replace function headway.refuse_move() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if old.status = new.status
     or (old.status || '>' || new.status) = any (array[
       'scheduled>queued', 'queued>scheduled', 'held>queued', 'held>scheduled', 'queued>running',
       'running>succeeded', 'running>scheduled', 'running>queued', 'running>waiting', 'waiting>queued',
       'running>dead', 'running>failed', 'queued>canceled', 'scheduled>canceled', 'held>canceled',
       'waiting>canceled', 'running>canceled', 'dead>queued', 'failed>queued', 'canceled>queued',
       'succeeded>queued', 'dead>held', 'failed>held', 'canceled>held', 'succeeded>held'
     ])
  then
    return new;
  end if;
  raise exception 'job % cannot go from % to %', old.id, old.status, new.status
    using errcode = 'HW003';
end
$$;

drop trigger jobs_moves on headway.jobs;
-- the moves of every day are inline and cost no function call; few, and as one constant: it is read like a check's
create trigger jobs_moves
  before update of status on headway.jobs
  for each row
  when (
    (old.status || '>' || new.status) <> all (
      '{queued>running,running>succeeded,held>queued,scheduled>queued}'::text[])
  )
  execute function headway.refuse_move();

delete from headway.edges e where e.fence > 0;
alter table headway.edges drop column fence, drop column place, add primary key (parent_id, child_id);
alter table headway.sweeps drop column deadline_at, drop column machine;
alter table headway.arrivals drop column signaled, drop column orphaned;
drop table headway.signals;
alter table headway.attempts drop column version, drop column outcome, drop column note, drop column woken;
alter table headway.jobs
  drop column version,
  drop column step,
  drop column state,
  drop column awaiting,
  drop column match_all,
  drop column deadline_at,
  drop column joining,
  drop column woken,
  drop column home_queue,
  drop column home_partition,
  drop column forked_from,
  drop column parent_id;
