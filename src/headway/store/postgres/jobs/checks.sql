-- Checks of a new job. Options of untrusted callers are in restricted.sql, quotas in quotas.sql.

-- The name of the rule that a new job breaks, or null. Values that promote or reap cannot calculate with must not get
-- in: one such row would stop them for everybody. on_canceled and on_dead are null for advance, as they are stored.
-- 3162240000000 ms are 100 years.
create function headway.flaw(
  delivery text,
  source text,
  max_attempts integer,
  max_losses integer,
  backoff_base_ms bigint,
  backoff_cap_ms bigint,
  timeout_ms bigint,
  scheduled_for timestamptz,
  expires_at timestamptz,
  train text,
  partition text,
  on_canceled text,
  on_dead text,
  concurrency integer,
  concurrency_key text,
  rate_count integer,
  rate_period_ms bigint,
  rate_burst integer,
  rate_key text
) returns text
language sql immutable parallel safe
as $$
  select case
    when delivery <> all ('{at_least_once,at_most_once}'::text[])
         or source <> all ('{manual,event,schedule,system}'::text[])
         or least(max_attempts, max_losses) < 1
         or least(backoff_base_ms, backoff_cap_ms) < 0
         or timeout_ms < 1
         or greatest(backoff_base_ms, backoff_cap_ms, timeout_ms) > 3162240000000
      then 'jobs_values'
    when greatest(scheduled_for, expires_at) > timestamptz '9000-01-01 00:00:00+00'
         or least(scheduled_for, expires_at) < timestamptz '1970-01-01 00:00:00+00'
      then 'jobs_times'
    when least(train, partition, concurrency_key, rate_key) = ''
         or greatest(
              pg_catalog.length(train), pg_catalog.length(partition), pg_catalog.length(concurrency_key),
              pg_catalog.length(rate_key)) > 255
         or on_canceled <> 'hold'
         or on_dead <> 'hold'
         or least(concurrency, rate_count, rate_burst, rate_period_ms) < 1
         or concurrency is null and concurrency_key is not null
         or rate_count is null and coalesce(rate_period_ms, rate_burst, pg_catalog.length(rate_key)) is not null
         or rate_count is not null and rate_period_ms is null
      then 'jobs_order'
  end
$$;

-- Raise the error of a table's check, by the rule's name.
create function headway.refuse_job(p_id uuid, p_rule text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'job % violates check "%"', p_id, p_rule
    using errcode = 'check_violation', schema = 'headway', table = 'jobs', constraint = p_rule;
end
$$;

-- Whether a new job continues work that was begun: a child of a machine, or a fork. What an untrusted caller says of that
-- counts only if it is a fork of its own tenant's job of the same kind.
create function headway.continues(p_kind text, p_checkpoint jsonb) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select (p_checkpoint ?| '{parent_id,forked_from}') is true
     and (headway.trusted()
          or exists (select
                       from headway.jobs f
                      where f.id = headway.as_id(p_checkpoint ->> 'forked_from')
                        and f.kind = p_kind
                        and f.tenant_id = headway.acting_tenant(null)))
$$;

-- Refuse jobs of a kind that an operator has deactivated; but neither children of machines nor forks. Raises HW003.
create function headway.check_active(p_kinds text[], p_checkpoints jsonb[]) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_kind text;
begin
  select u.kind
    into v_kind
    from unnest(p_kinds, p_checkpoints) with ordinality as u (kind, machine, ordinal)
    join headway.definitions d on d.kind = u.kind and not d.active
   where not headway.continues(u.kind, u.machine)
   order by u.ordinal
   limit 1;
  if found then
    raise exception 'kind "%" is not active: nothing was enqueued; headway definitions activate %', v_kind, v_kind
      using errcode = 'HW003';
  end if;
end
$$;
