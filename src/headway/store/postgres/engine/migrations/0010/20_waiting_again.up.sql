-- locks: queued jobs that wait for something, for a moment
-- A machine that was canceled while it waited or slept does so again when it is retried: as a car, when its turn comes.

create or replace function headway.refuse_move() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if new.status = 'running' and (new.worker_id is null or new.attempt_started_at is null) then
    raise exception 'job % violates check "jobs_running": what is running has a worker and a start', new.id
      using errcode = 'check_violation', schema = tg_table_schema, table = tg_table_name, constraint = 'jobs_running';
  end if;
  if old.status = new.status
     or (old.status || '>' || new.status) = any (array[
       'scheduled>queued', 'queued>scheduled', 'held>queued', 'held>scheduled', 'queued>running',
       'running>succeeded', 'running>scheduled', 'running>queued', 'running>waiting', 'waiting>queued',
       'running>dead', 'running>failed', 'queued>canceled', 'scheduled>canceled', 'held>canceled',
       'waiting>canceled', 'running>canceled', 'dead>queued', 'failed>queued', 'canceled>queued',
       'succeeded>queued', 'dead>held', 'failed>held', 'canceled>held', 'succeeded>held', 'canceled>waiting',
       'held>waiting', 'canceled>scheduled'
     ])
  then
    return new;
  end if;
  raise exception 'job % cannot go from % to %', old.id, old.status, new.status
    using errcode = 'HW003';
end
$$;

-- cars that were retried before this, and whose turn has come since: no worker may run them before they are woken. There
-- is no move from queued to waiting
do $$
declare
  v_ids uuid[];
begin
  select array_agg(l.id)
    into v_ids
    from (select j.id
            from headway.jobs j
           where j.status = 'queued'
             and j.woken is null
             and (j.awaiting is not null or j.joining is not null)
             for update skip locked) l;
  update headway.jobs j set status = 'canceled', limited_by = null where j.id = any (v_ids);
  update headway.jobs j set status = 'waiting', pending = case when j.joining is not null then true end where j.id = any (v_ids);
  insert into headway.arrivals (tenant_id, signaled, jobs)
  select j.tenant_id, array_agg(j.id), array_agg(j.id) filter (where j.pending)
    from headway.jobs j
   where j.id = any (v_ids)
   group by j.tenant_id;
end
$$;
