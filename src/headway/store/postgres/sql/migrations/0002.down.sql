-- Back to version 1. What waited its turn is queued: the order of trains, and what jobs waited for, is lost.

drop trigger jobs_status on headway.jobs;
drop trigger jobs_values on headway.jobs;
drop trigger jobs_times on headway.jobs;
drop trigger jobs_order on headway.jobs;
drop function headway.refuse_value();
drop index headway.jobs_locomotive, headway.jobs_partition, headway.jobs_claim, headway.jobs_held;
do $$
declare
  v_id uuid;
begin
  for v_id in select j.id from headway.jobs j where j.status = 'held' order by j.position, j.id loop
    begin
      update headway.jobs j
         set status = case when j.scheduled_for > headway.now() then 'scheduled' else 'queued' end,
             queued_at = case when j.scheduled_for > headway.now() then j.queued_at else headway.now() end,
             position = coalesce(j.position, nextval('headway.position'))
       where j.id = v_id;
    exception when unique_violation then
      perform headway.supersede(v_id, headway.now());
    end;
  end loop;
end
$$;
alter table headway.jobs
  drop column train,
  drop column on_canceled,
  drop column on_dead,
  drop column partition,
  drop column concurrency,
  drop column concurrency_key,
  drop column rate_count,
  drop column rate_period_ms,
  drop column rate_burst,
  drop column rate_key,
  drop column limited_by,
  drop column group_id,
  drop column limited,
  drop column metered,
  drop column fair,
  drop column pending;
create index jobs_claim on headway.jobs (queue, priority, position, id) where status = 'queued';
alter table headway.queues drop column fair, drop column fair_since, drop column turn;
drop table
  headway.arrivals, headway.gates, headway.sweeps, headway.holds, headway.edges, headway.groups, headway.limits, headway.buckets,
  headway.reservations;

alter table headway.jobs
  add constraint jobs_status check (
    status in ('queued', 'scheduled', 'held', 'running', 'waiting', 'succeeded', 'failed', 'dead', 'canceled')
  ),
  add constraint jobs_delivery check (delivery in ('at_least_once', 'at_most_once')),
  add constraint jobs_source check (source in ('manual', 'event', 'schedule', 'system')),
  add constraint jobs_budget check (max_attempts > 0 and max_losses > 0),
  add constraint jobs_times check (
    scheduled_for < timestamptz '10000-01-01 00:00:00+00' and expires_at < timestamptz '10000-01-01 00:00:00+00'
  ),
  add constraint jobs_durations check (
    backoff_base_ms between 0 and 3162240000000
    and backoff_cap_ms between 0 and 3162240000000
    and timeout_ms between 1 and 3162240000000
  );

drop trigger jobs_moves on headway.jobs;
create or replace function headway.refuse_move() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'job % cannot go from % to %', old.id, old.status, new.status
    using errcode = 'HW003';
end
$$;

create trigger jobs_moves
  before update of status on headway.jobs
  for each row
  when (
    old.status <> new.status
    and (old.status || '>' || new.status) <> all (array[
      'scheduled>queued', 'queued>scheduled', 'held>queued', 'held>scheduled', 'queued>running',
      'running>succeeded', 'running>scheduled', 'running>queued', 'running>waiting', 'waiting>queued',
      'running>dead', 'running>failed', 'queued>canceled', 'scheduled>canceled', 'held>canceled',
      'waiting>canceled', 'running>canceled', 'dead>queued', 'failed>queued', 'canceled>queued',
      'succeeded>queued'
    ])
  )
  execute function headway.refuse_move();
