-- Back to version 4: the conditions of new jobs as triggers of their own.

drop trigger jobs_new on headway.jobs;
drop function headway.check_new();
drop trigger jobs_values on headway.jobs;
drop trigger jobs_times on headway.jobs;
drop trigger jobs_order on headway.jobs;

create trigger jobs_status
  before insert on headway.jobs
  for each row
  when (new.status <> all ('{queued,scheduled,held,running,waiting,succeeded,failed,dead,canceled}'::text[]))
  execute function headway.refuse_value();

create trigger jobs_values
  before insert or update of
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
  before insert or update of scheduled_for, expires_at on headway.jobs
  for each row
  when (greatest(new.scheduled_for, new.expires_at) >= timestamptz '10000-01-01 00:00:00+00')
  execute function headway.refuse_value();

create trigger jobs_order
  before insert or update of
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
