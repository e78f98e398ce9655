-- Version 5: what a new job cannot be is asked once. The server reads the text of a trigger's condition anew for every
-- statement, and that of four was a tenth of a single enqueue. The functions that enqueue, which are known by their search
-- path, look at what they put in; what comes from elsewhere is looked at by one trigger.

drop trigger jobs_status on headway.jobs;
drop trigger jobs_values on headway.jobs;
drop trigger jobs_times on headway.jobs;
drop trigger jobs_order on headway.jobs;

-- the same error as a check's
create function headway.check_new() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_flaw text := case when new.status <> all ('{queued,scheduled,held,running,waiting,succeeded,failed,dead,canceled}'::text[])
                      then 'jobs_status'
                      else headway.flaw(
                        new.delivery, new.source, new.max_attempts, new.max_losses, new.backoff_base_ms,
                        new.backoff_cap_ms, new.timeout_ms, new.scheduled_for, new.expires_at, new.train, new.partition,
                        new.on_canceled, new.on_dead, new.concurrency, new.concurrency_key, new.rate_count,
                        new.rate_period_ms, new.rate_burst, new.rate_key)
                 end;
begin
  if v_flaw is not null then
    perform headway.refuse_job(new.id, v_flaw);
  end if;
  return new;
end
$$;

create trigger jobs_new
  before insert on headway.jobs
  for each row
  when (pg_catalog.current_setting('search_path') <> 'pg_catalog, headway, pg_temp')
  execute function headway.check_new();

-- a change is looked at only where it changes one of these
create trigger jobs_values
  before update of
    delivery, source, max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, timeout_ms
  on headway.jobs
  for each row
  when (
    new.delivery <> all ('{at_least_once,at_most_once}'::text[])
    or new.source <> all ('{manual,event,schedule,system}'::text[])
    or least(new.max_attempts, new.max_losses) < 1
    or least(new.backoff_base_ms, new.backoff_cap_ms) < 0
    or new.timeout_ms < 1
    or greatest(new.backoff_base_ms, new.backoff_cap_ms, new.timeout_ms) > 3162240000000
  )
  execute function headway.refuse_value();

create trigger jobs_times
  before update of scheduled_for, expires_at on headway.jobs
  for each row
  when (greatest(new.scheduled_for, new.expires_at) >= timestamptz '10000-01-01 00:00:00+00')
  execute function headway.refuse_value();

create trigger jobs_order
  before update of
    train, partition, on_canceled, on_dead, concurrency, concurrency_key, rate_count, rate_period_ms, rate_burst, rate_key
  on headway.jobs
  for each row
  when (
    least(new.train, new.partition, new.concurrency_key, new.rate_key) = ''
    or greatest(length(new.train), length(new.partition), length(new.concurrency_key), length(new.rate_key)) > 255
    or new.on_canceled <> 'hold'
    or new.on_dead <> 'hold'
    or least(new.concurrency, new.rate_count, new.rate_burst, new.rate_period_ms) < 1
    or new.concurrency is null and new.concurrency_key is not null
    or new.rate_count is null and coalesce(new.rate_period_ms, new.rate_burst, length(new.rate_key)) is not null
    or new.rate_count is not null and new.rate_period_ms is null
  )
  execute function headway.refuse_value();
