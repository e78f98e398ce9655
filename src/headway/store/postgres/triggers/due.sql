-- What is to be fired now.

-- What is to be fired now: the schedules that are due (those that code declared only if they are in p_declared) and the
-- events that wait, up to p_limit of each (a few more where many tenants share them), in order; how long until the next
-- schedule is due; the kinds whose keys are computed by code that the caller does not have (who knows p_kinds); and how many
-- definitions there are, with the sum of their revisions. A schedule of such a kind is left to others, and so is, for ten
-- minutes, an event that meets no other trigger. Where nothing is due it is a few probes. Where more schedules
-- are due than p_limit it looks past those that somebody has locked, by locks that it shares with others that look; else it
-- locks nothing, and it never waits.
create function headway.due(p_kinds text[], p_declared uuid[], p_limit integer)
returns table (now timestamptz, schedules uuid[], events uuid[], next_due_ms bigint, computed text[], defined text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := headway.now();
  v_next timestamptz;
  v_computed text[];
  v_owners uuid[];
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
         and (coalesce(t.kind, (select m.kind from headway.templates m where m.id = t.template_id)) = any (v_computed))
             is not true
       order by t.next_fire_at, t.id
       limit p_limit);
    if cardinality(schedules) = p_limit then
      -- more than one look gives: each tenant has its part, so that none waits for another's backlog; and what
      -- somebody has locked, which cannot be fired now, hides nothing
      v_owners := headway.due_owners(v_now, p_limit);
    end if;
    if v_owners <> '{}' then
      schedules := array(
        select s.id
          from unnest(v_owners) as o (tenant_id)
          cross join lateral (
            select t.id, t.next_fire_at
              from headway.triggers t
             where t.tenant_id = o.tenant_id
               and t.enabled
               and t.type = 'schedule'
               and t.next_fire_at is not null
               and t.next_fire_at <= v_now
               and (t.origin = 'stored' or t.id = any (p_declared))
               and (coalesce(t.kind, (select m.kind from headway.templates m where m.id = t.template_id))
                    = any (v_computed)) is not true
             order by t.next_fire_at
             limit (p_limit + cardinality(v_owners) - 1) / cardinality(v_owners)
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
         and (v_computed = '{}' or not headway.left_to_others(e, v_computed, v_now))
       order by e.id
       limit p_limit);
    if cardinality(events) = p_limit then
      v_owners := headway.event_owners(p_limit);
    else
      v_owners := null;
    end if;
    if cardinality(v_owners) > 1 then
      events := array(
        select h.id
          from unnest(v_owners) as o (tenant_id)
          cross join lateral (
            select e.id
              from headway.events e
             where e.tenant_id = o.tenant_id
               and e.status = 'pending'
               and (v_computed = '{}' or not headway.left_to_others(e, v_computed, v_now))
             order by e.id
             limit (p_limit + cardinality(v_owners) - 1) / cardinality(v_owners)) h
         order by h.id);
    end if;
  end if;
  now := v_now;
  next_due_ms := case when v_next is not null then greatest(0, ceil(extract(epoch from v_next - v_now) * 1000)) end;
  computed := v_computed;
  return next;
end
$$;

-- Whether an event is left to others for now: it meets only triggers of kinds that the caller does not know.
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
              and t.event = p_event.name
              and t.created_at <= p_event.emitted_at
              and (select 1 from headway.fires f where f.event_id = p_event.id and f.trigger_id = t.id limit 1) is null),
         false)
$$;

-- Up to p_limit tenants that have a schedule due, each found by one probe, beginning with any of them: who is many does not
-- always come first. Looks at 10,000 tenants at most.
create function headway.due_owners(p_now timestamptz, p_limit integer) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  v_first uuid := gen_random_uuid();
  v_last uuid := v_first;
  v_found record;
  v_owners uuid[] := '{}';
  v_round integer := 1;
begin
  for i in 1..10000 loop
    select t.tenant_id, t.next_fire_at
      into v_found
      from headway.triggers t
     where t.enabled and t.type = 'schedule' and t.next_fire_at is not null and t.tenant_id > v_last
     order by t.tenant_id, t.next_fire_at
     limit 1;
    if not found or v_round = 2 and v_found.tenant_id > v_first then
      exit when v_round = 2;
      v_round := 2;
      v_last := '00000000-0000-0000-0000-000000000000';
      continue;
    end if;
    if v_found.next_fire_at <= p_now then
      v_owners := v_owners || v_found.tenant_id;
      exit when cardinality(v_owners) >= p_limit;
    end if;
    v_last := v_found.tenant_id;
  end loop;
  return v_owners;
end
$$;

-- Up to p_limit tenants that have an event waiting, in the same way.
create function headway.event_owners(p_limit integer) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  v_first uuid := gen_random_uuid();
  v_last uuid := v_first;
  v_found uuid;
  v_owners uuid[] := '{}';
  v_round integer := 1;
begin
  loop
    select e.tenant_id
      into v_found
      from headway.events e
     where e.status = 'pending' and e.tenant_id > v_last
     order by e.tenant_id
     limit 1;
    if v_found is null or v_round = 2 and v_found > v_first then
      exit when v_round = 2;
      v_round := 2;
      v_last := '00000000-0000-0000-0000-000000000000';
      continue;
    end if;
    v_owners := v_owners || v_found;
    exit when cardinality(v_owners) >= p_limit;
    v_last := v_found;
  end loop;
  return v_owners;
end
$$;
