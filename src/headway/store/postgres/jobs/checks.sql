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

-- Whether a definition with these tenants, given by name or id, is for this one; null: for all.
create function headway.is_for(p_tenants text[], p_tenant uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select p_tenants is null
      or p_tenant::text = any (p_tenants)
      or exists (select from headway.tenants t where t.id = p_tenant and t.slug = any (p_tenants))
$$;

-- Whether a kind's definition lets a tenant use it, and is active; children of machines and forks are continued anyway.
create function headway.takes(p_kind text, p_checkpoint jsonb, p_tenant uuid) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(
           (select d.active and headway.is_for(d.tenants, p_tenant) from headway.definitions d where d.kind = p_kind), true)
      or headway.continues(p_kind, p_checkpoint)
$$;

-- Refuse jobs of a kind that an operator has deactivated, or that is not for their tenant, as if there were none; but
-- neither children of machines nor forks. p_tenants may be null, or shorter: p_own is then the tenant. Raises HW003, HW010.
create function headway.check_kinds(p_kinds text[], p_checkpoints jsonb[], p_tenants uuid[], p_own uuid) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_kind text;
  v_is_known boolean;
begin
  select u.kind, headway.is_for(d.tenants, coalesce(u.tenant, p_own))
    into v_kind, v_is_known
    from unnest(p_kinds, p_checkpoints, p_tenants) with ordinality as u (kind, machine, tenant, ordinal)
    join headway.definitions d on d.kind = u.kind and (not d.active or d.tenants is not null)
   where not headway.takes(u.kind, u.machine, coalesce(u.tenant, p_own))
   order by u.ordinal
   limit 1;
  if not found then
    return;
  end if;
  if not v_is_known then
    perform headway.refuse_kind(v_kind);
  end if;
  raise exception 'kind "%" is not active: nothing was enqueued; headway definitions activate %', v_kind, v_kind
    using errcode = 'HW003';
end
$$;

create function headway.refuse_kind(p_kind text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'kind "%" has no definition: nothing was enqueued; start a worker that has it, which declares it', p_kind
    using errcode = 'HW010';
end
$$;
