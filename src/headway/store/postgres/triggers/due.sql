-- Due: what to fire now.

-- What to fire now: up to p_limit schedules that are due (of those that code declared, only p_declared) and up to
-- p_limit pending events, in order; a few more where many tenants share them. With them: how long until the next
-- schedule is due; the kinds whose keys are computed by code that the caller (who knows p_kinds) does not have; and the
-- number of definitions with the sum of their revisions, by which the caller sees a change. A schedule of such a kind
-- is left to other callers, and so is, for ten minutes, an event that meets no other trigger. Suspended tenants' are left out. A few probes where
-- nothing is due; never waits. Where more than p_limit are due, it skips schedules and events that somebody has locked,
-- and takes share locks for that.
create function headway.due(p_kinds text[], p_declared uuid[], p_limit integer)
returns table (now timestamptz, schedules uuid[], events uuid[], next_due_ms bigint, computed text[], defined text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := headway.now();
  v_next timestamptz;
  v_computed text[];
  v_tenants uuid[];
  v_suspended uuid[] := array(select t.id from headway.tenants t where t.suspended_at is not null);
begin
  select count(*) || '/' || coalesce(sum(d.revision), 0),
         coalesce(array_agg(d.kind) filter (where d.computed and d.kind <> all (p_kinds)), '{}')
    into defined, v_computed
    from headway.definitions d;
  select t.next_fire_at
    into v_next
    from headway.triggers t
   where t.enabled
     and t.type = 'schedule'
     and t.next_fire_at is not null
     and (t.origin = 'stored' or t.id = any (p_declared))
     and t.tenant_id <> all (v_suspended)
     and (coalesce(t.kind, (select m.kind from headway.templates m where m.id = t.template_id)) = any (v_computed))
         is not true
   order by t.next_fire_at
   limit 1;
  if v_next <= v_now then
    schedules := array(
      select t.id
        from headway.triggers t
       where t.enabled
         and t.type = 'schedule'
         and t.next_fire_at is not null
         and t.next_fire_at <= v_now
         and (t.origin = 'stored' or t.id = any (p_declared))
         and t.tenant_id <> all (v_suspended)
         and (coalesce(t.kind, (select m.kind from headway.templates m where m.id = t.template_id)) = any (v_computed))
             is not true
       order by t.next_fire_at, t.id
       limit p_limit);
    if cardinality(schedules) = p_limit then
      -- more than fit: every tenant gets its part, so that none waits for another's backlog; and schedules that
      -- somebody has locked, which cannot be fired now, do not use up the limit
      v_tenants := headway.tenants_in_turn('schedules', p_limit, v_now, v_suspended);
    end if;
    if v_tenants <> '{}' then
      schedules := array(
        select s.id
          from unnest(v_tenants) as o (tenant_id)
          cross join lateral (
            select t.id, t.next_fire_at
              from headway.triggers t
             where t.tenant_id = o.tenant_id
               and t.enabled
               and t.type = 'schedule'
               and t.next_fire_at is not null
               and t.next_fire_at <= v_now
               and (t.origin = 'stored' or t.id = any (p_declared))
               and t.tenant_id <> all (v_suspended)
               and (coalesce(t.kind, (select m.kind from headway.templates m where m.id = t.template_id))
                    = any (v_computed)) is not true
             order by t.next_fire_at
             limit (p_limit + cardinality(v_tenants) - 1) / cardinality(v_tenants)
               for share of t skip locked) s
         order by s.next_fire_at, s.id);
    end if;
  end if;
  perform from headway.events e where e.status = 'pending' limit 1;
  if found then
    events := array(
      select e.id
        from headway.events e
       where e.status = 'pending'
         and e.tenant_id <> all (v_suspended)
         and (v_computed = '{}' or not headway.left_to_others(e, v_computed, v_now))
       order by e.id
       limit p_limit);
    if cardinality(events) = p_limit then
      v_tenants := headway.tenants_in_turn('events', p_limit, v_now, v_suspended);
      if v_tenants <> '{}' then
        events := headway.events_in_turn(v_tenants, v_computed, p_limit, v_now);
      end if;
    end if;
  end if;
  now := v_now;
  next_due_ms := case when v_next is not null then greatest(0, ceil(extract(epoch from v_next - v_now) * 1000)) end;
  computed := v_computed;
  return next;
end
$$;

-- Up to p_limit pending events, each of these tenants' share of them, in order. Leaves out what cannot be handled now: an
-- event that somebody has locked, and all events of a name and tenant if somebody has locked one of their triggers; so
-- however many these are, they do not hide the others.
create function headway.events_in_turn(p_tenants uuid[], p_computed text[], p_limit integer, p_now timestamptz)
returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_events uuid[];
  v_found text[];
  v_locked text[] := '{}'; -- tenant and name
begin
  -- one round where no trigger is locked; after ten, the next look goes on
  for v_round in 1 .. 10 loop
    v_events := array(
      select h.id
        from unnest(p_tenants) as o (tenant_id)
        cross join lateral (
          select e.id
            from headway.events e
           where e.tenant_id = o.tenant_id
             and e.status = 'pending'
             and (p_computed = '{}' or not headway.left_to_others(e, p_computed, p_now))
             and (v_locked = '{}' or o.tenant_id || ' ' || e.name <> all (v_locked))
           order by e.id
           limit (p_limit + cardinality(p_tenants) - 1) / cardinality(p_tenants)
             for share of e skip locked) h
       order by h.id);
    with met as materialized (
      select distinct t.id, t.tenant_id, e.name as event
        from unnest(v_events) as u (id)
        join headway.events e on e.id = u.id
        join headway.triggers t on t.tenant_id = e.tenant_id and t.event = any (headway.event_patterns(e.name))
       where t.enabled
         and t.type = 'event'
    ), free as materialized (
      select l.id
        from met m
        cross join lateral (select t.id from headway.triggers t where t.id = m.id for share skip locked) l
    )
    select array_agg(distinct m.tenant_id || ' ' || m.event)
      into v_found
      from met m
     where m.id not in (select f.id from free f);
    exit when v_found is null;
    v_locked := v_locked || v_found;
  end loop;
  return v_events;
end
$$;

-- What a trigger may listen to that means an event of this name: the name, a pattern for each of its dots (a.b.c: a.b.*
-- and a.*), and *, which leaves out the engine's own.
create function headway.event_patterns(p_name text) returns text[]
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select array[p_name]
         || array(
              select left(p_name, d.place) || '*'
                from generate_series(1, length(p_name)) as d (place)
               where substr(p_name, d.place, 1) = '.')
         || case when p_name like 'headway.%' then '{}'::text[] else array['*'] end
$$;

-- Whether an event is left to other callers for now: it is recent, and all its triggers are of kinds that the caller
-- does not know.
create function headway.left_to_others(p_event headway.events, p_computed text[], p_now timestamptz) returns boolean
language sql stable
as $$
  select p_event.emitted_at > p_now - interval '10 minutes'
     and coalesce((
           select pg_catalog.bool_and(
                    coalesce(t.kind, (select m.kind from headway.templates m where m.id = t.template_id)) = any (p_computed))
             from headway.triggers t
            where t.enabled
              and t.type = 'event'
              and t.tenant_id = p_event.tenant_id
              and t.event = any (headway.event_patterns(p_event.name))
              and t.created_at <= p_event.emitted_at
              and (select 1 from headway.fires f where f.event_id = p_event.id and f.trigger_id = t.id limit 1) is null),
         false)
$$;
