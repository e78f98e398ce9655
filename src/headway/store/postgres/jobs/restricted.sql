-- Restricted options: queue, timeout, partition, concurrency and rate, with their keys. An untrusted caller may set
-- them only as the kind's definition allows (enqueuer_may). The same rules and texts as model/restricted.py.
-- A definition that is not for the caller's tenant counts as none.

-- The restricted options of a new job of an untrusted caller; where it gave none, the definition's. A limit that the
-- caller changed without naming a key gets one of its tenant, which no other tenant shares. home_queue and
-- home_partition in p_checkpoint, where a machine begins, are checked, too. Raises HW003.
create function headway.restrict(
  p_kind text,
  p_checkpoint jsonb,
  inout queue text,
  inout timeout_ms bigint,
  inout partition text,
  inout concurrency integer,
  inout concurrency_key text,
  inout rate_count integer,
  inout rate_period_ms bigint,
  inout rate_burst integer,
  inout rate_key text
)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  v_own headway.definitions;
  v_policy headway.jobs; -- the definition's values of a job's columns
  v_rate boolean;
  v_bound jsonb;
begin
  select d.* into v_own
    from headway.definitions d
   where d.kind = p_kind and headway.is_for(d.tenants, headway.tenant());
  v_own.queue := coalesce(v_own.queue, 'default');
  v_policy := json_populate_record(null::headway.jobs, v_own.policy);

  queue := headway.restrict_queue(p_kind, v_own, queue);
  timeout_ms := headway.restrict_timeout(p_kind, v_own, timeout_ms);
  partition := headway.restrict_key(p_kind, v_own, 'partition', null, partition, v_policy.partition);
  if p_checkpoint ->> 'home_queue' is not null then
    perform headway.restrict_queue(p_kind, v_own, p_checkpoint ->> 'home_queue');
  end if;
  if p_checkpoint ->> 'home_partition' is not null then
    perform headway.restrict_key(
      p_kind, v_own, 'partition', null, p_checkpoint ->> 'home_partition', v_policy.partition);
  end if;

  concurrency_key := headway.restrict_key(
    p_kind, v_own, 'concurrency_key', 'concurrency', concurrency_key, v_policy.concurrency_key);
  if concurrency is null or concurrency is not distinct from v_policy.concurrency then
    concurrency := v_policy.concurrency;
  else
    v_bound := headway.bound(p_kind, v_own, 'concurrency');
    if v_bound <> 'true' and concurrency > v_bound::integer then
      perform headway.refuse_option(p_kind, 'concurrency', format('at most %s', v_bound), concurrency::text);
    end if;
    concurrency_key := coalesce(concurrency_key, 'tenant');
  end if;

  rate_key := headway.restrict_key(p_kind, v_own, 'rate_key', 'rate', rate_key, v_policy.rate_key);
  v_rate := rate_count is not null and rate_count is distinct from v_policy.rate_count
            or rate_period_ms is not null and rate_period_ms is distinct from v_policy.rate_period_ms;
  if not v_rate and (rate_burst is null or rate_burst is not distinct from v_policy.rate_burst) then
    rate_count := v_policy.rate_count;
    rate_period_ms := v_policy.rate_period_ms;
    rate_burst := v_policy.rate_burst;
  else
    v_bound := headway.bound(p_kind, v_own, 'rate');
    rate_count := coalesce(rate_count, v_policy.rate_count);
    rate_period_ms := coalesce(rate_period_ms, v_policy.rate_period_ms);
    -- an incomplete rate is refused later, as for any caller
    if v_bound <> 'true' and rate_count is not null and rate_period_ms is not null then
      -- a larger count in a longer period is the same rate on average, but allows a larger burst
      if rate_count::numeric * (v_bound ->> 1)::bigint > (v_bound ->> 0)::numeric * rate_period_ms
         or greatest(rate_count, rate_burst) > (v_bound ->> 0)::bigint then
        perform headway.refuse_option(
          p_kind, 'rate', format('at most %s in %sms', v_bound ->> 0, v_bound ->> 1),
          format('%s in %sms', rate_count, rate_period_ms) || coalesce(' with a burst of ' || rate_burst, ''));
      end if;
    end if;
    rate_key := coalesce(rate_key, 'tenant');
  end if;
end
$$;

-- The queue of an untrusted caller's job. The queue that the code says counts as none given: a process that has the
-- kind learns of an operator's change a few seconds late. Raises HW003.
create function headway.restrict_queue(p_kind text, p_own headway.definitions, p_queue text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bound jsonb;
begin
  if (p_own.policy -> 'step_queues')::jsonb ? p_queue then
    return p_queue;
  end if;
  if p_queue is null or p_queue in (p_own.queue, p_own.code ->> 'queue') then
    return p_own.queue;
  end if;
  v_bound := headway.bound(p_kind, p_own, 'queue');
  if v_bound <> 'true' and not v_bound ? p_queue then
    perform headway.refuse_option(
      p_kind, 'queue', 'one of ' || array_to_string(headway.texts(v_bound), ', '), p_queue);
  end if;
  return p_queue;
end
$$;

-- The timeout of an untrusted caller's job, in the same way.
create function headway.restrict_timeout(p_kind text, p_own headway.definitions, p_timeout_ms bigint) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bound jsonb;
begin
  if p_timeout_ms is null or p_timeout_ms in (p_own.timeout_ms, (p_own.code ->> 'timeout_ms')::bigint) then
    return p_own.timeout_ms;
  end if;
  v_bound := headway.bound(p_kind, p_own, 'timeout');
  if v_bound <> 'true' and p_timeout_ms > v_bound::bigint then
    perform headway.refuse_option(p_kind, 'timeout', format('at most %sms', v_bound), format('%sms', p_timeout_ms));
  end if;
  return p_timeout_ms;
end
$$;

-- The key of an untrusted caller's job: the one it gave, where the code computes keys, or where the key or its limit
-- may be set.
create function headway.restrict_key(
  p_kind text, p_own headway.definitions, p_option text, p_limit text, p_key text, p_default text
) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_key is null or p_key = p_default then
    return p_default;
  end if;
  if ((p_own.policy -> 'made_keys')::jsonb ? p_option or p_own.enqueuer_may::jsonb ? p_limit) is not true then
    perform headway.bound(p_kind, p_own, p_option);
  end if;
  return p_key;
end
$$;

-- The bound of an option that an untrusted caller sets. Raises HW003 where the definition has none.
create function headway.bound(p_kind text, p_own headway.definitions, p_option text) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_own.kind is null then
    raise exception 'kind "%" has no definition that lets its enqueuers set %: nothing was written; a worker that has the kind writes one at its start',
      p_kind, p_option using errcode = 'HW003';
  end if;
  if not p_own.enqueuer_may::jsonb ? p_option then
    raise exception 'kind "%" does not let its enqueuers set %: nothing was written; leave it out, or allow it by enqueuer_may in the kind''s definition',
      p_kind, p_option using errcode = 'HW003';
  end if;
  return p_own.enqueuer_may::jsonb -> p_option;
end
$$;

create function headway.refuse_option(p_kind text, p_option text, p_bound text, p_asked text) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'kind "%" lets its enqueuers set % to %, not to %: nothing was written', p_kind, p_option, p_bound, p_asked
    using errcode = 'HW003';
end
$$;

-- A change of a job's queue and timeout_ms by an untrusted caller, with the values that they get. Raises HW003.
create function headway.restrict_change(p_kind text, p_change jsonb) returns jsonb
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_own headway.definitions;
begin
  select d.* into v_own
    from headway.definitions d
   where d.kind = p_kind and headway.is_for(d.tenants, headway.tenant());
  v_own.queue := coalesce(v_own.queue, 'default');
  if p_change ? 'queue' then
    p_change := p_change || jsonb_build_object('queue', headway.restrict_queue(p_kind, v_own, p_change ->> 'queue'));
  end if;
  if p_change ->> 'timeout_ms' is not null then
    p_change := p_change || jsonb_build_object(
      'timeout_ms', headway.restrict_timeout(p_kind, v_own, (p_change ->> 'timeout_ms')::bigint));
  elsif p_change ? 'timeout_ms' and v_own.timeout_ms is not null
        and headway.bound(p_kind, v_own, 'timeout') <> 'true' then
    perform headway.refuse_option(p_kind, 'timeout', format('at most %sms', v_own.enqueuer_may -> 'timeout'), 'none');
  end if;
  return p_change;
end
$$;

-- The options of a template or trigger that an untrusted caller stores, named and written as in Python, with the key
-- that a changed limit gets. A null, which removes the definition's value, and a value that is rendered later are
-- within no bound: they need an option that may be set to anything. Raises HW003, HW004.
create function headway.restrict_stored(p_kind text, p_options json) returns json
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_names constant text[] := '{queue,timeout,partition,concurrency,concurrency_key,rate,burst,rate_key}';
  v_set jsonb := p_options::jsonb;
  v_now jsonb; -- the values that are known now
  v_own headway.definitions;
  v_option text;
  v_rate text[];
  v_as record;
begin
  if v_set is null or not v_set ?| v_names then
    return p_options;
  end if;
  select d.* into v_own
    from headway.definitions d
   where d.kind = p_kind and headway.is_for(d.tenants, headway.tenant());
  -- a limit without a key gets the definition's, or the tenant's
  v_set := v_set - array(
    select k from unnest('{concurrency_key,rate_key}'::text[]) k where jsonb_typeof(v_set -> k) = 'null');
  v_now := v_set;
  for v_option in
    select o
      from unnest(v_names) o
     where jsonb_typeof(v_set -> o) = 'null'
        or o <> all ('{partition,concurrency_key,rate_key}') and strpos(v_set ->> o, '{{') > 0
  loop
    v_now := v_now - v_option;
    if headway.bound(p_kind, v_own, case v_option when 'burst' then 'rate' else v_option end) <> 'true' then
      raise exception 'kind "%" lets its enqueuers set % within bounds: nothing was written; give a template or trigger a value of its own',
        p_kind, v_option using errcode = 'HW003';
    end if;
  end loop;
  v_rate := regexp_match(
    lower(v_now ->> 'rate'),
    '^\s*([0-9]{1,10})\s*/\s*([0-9]{0,10})\s*(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)\s*$');
  if v_now ? 'rate' and v_rate is null or v_now ? 'timeout' and headway.as_ms(v_now -> 'timeout') is null then
    raise exception 'the options are not valid: rate is a text like 100/min, timeout one like 5m, or seconds. Nothing was written'
      using errcode = 'HW004';
  end if;
  select r.*
    into v_as
    from headway.restrict(
           p_kind, null, v_now ->> 'queue', headway.as_ms(v_now -> 'timeout'), v_now ->> 'partition',
           (v_now ->> 'concurrency')::integer, v_now ->> 'concurrency_key', v_rate[1]::integer,
           coalesce(nullif(v_rate[2], ''), '1')::bigint
           * case "left"(v_rate[3], 1) when 's' then 1000 when 'm' then 60000 when 'h' then 3600000 when 'd' then 86400000 end,
           (v_now ->> 'burst')::integer, v_now ->> 'rate_key') r;
  if v_set ->> 'concurrency' is not null
     and (v_as.concurrency_key = 'tenant' or not v_now ? 'concurrency' and v_as.concurrency_key is null)
     and ((v_own.policy -> 'made_keys')::jsonb ? 'concurrency_key') is not true then
    v_set := v_set || '{"concurrency_key": "tenant"}';
  end if;
  if coalesce(v_set ->> 'rate', v_set ->> 'burst') is not null
     and (v_as.rate_key = 'tenant' or not v_now ? 'rate' and v_as.rate_key is null)
     and ((v_own.policy -> 'made_keys')::jsonb ? 'rate_key') is not true then
    v_set := v_set || '{"rate_key": "tenant"}';
  end if;
  return v_set::json;
end
$$;

-- A duration of an option, in seconds or as a text like 1h30m, in milliseconds; null if it is none.
create function headway.as_ms(p_value jsonb) returns bigint
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select case
           when jsonb_typeof(p_value) = 'number' then ((p_value #>> '{}')::numeric * 1000)::bigint
           when p_value #>> '{}' ~ '^\s*([0-9]{1,12}([.][0-9]{1,9})?\s*(ms|[smhdw])\s*)+$'
             then (select sum(m[1]::numeric
                              * case m[2] when 'ms' then 1 when 's' then 1000 when 'm' then 60000 when 'h' then 3600000
                                          when 'd' then 86400000 else 604800000 end)::bigint
                     from regexp_matches(p_value #>> '{}', '([0-9]+(?:[.][0-9]+)?)\s*(ms|[smhdw])', 'g') m)
         end
$$;

-- Whether a JSON value is a whole number from 1 to p_most, written as one.
create function headway.is_whole(p_value jsonb, p_most bigint) returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select case when p_value #>> '{}' ~ '^[1-9][0-9]{0,17}$' and jsonb_typeof(p_value) = 'number'
              then (p_value #>> '{}')::bigint <= p_most
              else false
         end
$$;

-- What is wrong with the bounds of a definition as they are stored, or null. The same as in model/restricted.py.
create function headway.bounds_flaw(p_may json) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select case
           when b.name <> all ('{queue,timeout,partition,concurrency,concurrency_key,rate,rate_key}'::text[])
             then 'enqueuer_may has ''' || b.name || ''', which is no restricted option: name some of queue, timeout, '
                  'partition, concurrency, concurrency_key, rate, rate_key; enqueuers may always set the others'
           else 'enqueuer_may of ' || b.name || ' must be '
                || case b.name
                     when 'queue' then 'a list of queues, like ["mail"], or true for any'
                     when 'timeout' then 'milliseconds, from 1 to 3162240000000, or true for any'
                     when 'concurrency' then 'a whole number from 1 to 1000000, or true for any'
                     when 'rate' then '[count, milliseconds], each from 1 to 1000000000 and 31622400000, or true for any'
                     else 'true, or left out'
                   end
         end
    from json_each(p_may) with ordinality as m (name, json, ordinal)
    cross join lateral (select m.name, m.json::jsonb as bound, m.ordinal) b
   where b.name <> all ('{queue,timeout,partition,concurrency,concurrency_key,rate,rate_key}'::text[])
      or b.bound <> 'true'
         and case b.name
               when 'queue' then jsonb_typeof(b.bound) <> 'array' or b.bound = '[]'
                 or exists (select
                              from jsonb_array_elements(
                                     case when jsonb_typeof(b.bound) = 'array' then b.bound else '[]' end) q
                             where jsonb_typeof(q) <> 'string' or not headway.is_name(q #>> '{}'))
               when 'timeout' then headway.is_whole(b.bound, 3162240000000) is not true
               when 'concurrency' then headway.is_whole(b.bound, 1000000) is not true
               when 'rate' then jsonb_typeof(b.bound) <> 'array' or b.bound -> 2 is not null
                 or headway.is_whole(b.bound -> 0, 1000000000) is not true
                 or headway.is_whole(b.bound -> 1, 31622400000) is not true
               else true
             end
   order by b.ordinal
   limit 1
$$;

-- Refuse bounds that `restrict` could not read. Raises HW004.
create function headway.check_bounds(p_kind text, p_may json) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_flaw text;
begin
  if json_typeof(p_may) = 'object' then
    v_flaw := headway.bounds_flaw(p_may);
  end if;
  if v_flaw is not null then
    raise exception using errcode = 'HW004', message = headway.not_valid('definition', p_kind, null, v_flaw);
  end if;
end
$$;
