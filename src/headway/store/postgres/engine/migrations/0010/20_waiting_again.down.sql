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
       'succeeded>queued', 'dead>held', 'failed>held', 'canceled>held', 'succeeded>held', 'canceled>waiting'
     ])
  then
    return new;
  end if;
  raise exception 'job % cannot go from % to %', old.id, old.status, new.status
    using errcode = 'HW003';
end
$$;
