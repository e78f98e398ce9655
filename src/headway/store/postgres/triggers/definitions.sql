-- Definitions: what is stored of a kind. Workers declare them when they start; what an operator changed stays. All
-- tenants share them, but for those that name theirs: others cannot see them.

-- Set what an operator wants of a kind, even before any code has declared it. p_change has only the fields to set:
-- description, schema, timeout_ms, max_attempts, queue, enqueuer_may and tenants, which no longer follow the code then; active;
-- and reset, a list of fields that follow the code again, which is applied first. Revision + 1. Locks the kind's row.
-- Audited. Raises HW004.
create function headway.change_definition(p_kind text, p_change json, p_actor text default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_fields constant text[] := '{description,schema,timeout_ms,max_attempts,queue,enqueuer_may,tenants}';
  v_default constant json := '{"description": "", "schema": null, "timeout_ms": null, "max_attempts": 5, "queue": "default", "enqueuer_may": {}, "tenants": null}';
  v_now timestamptz := headway.now();
  v_reset text[] := headway.texts((p_change -> 'reset')::jsonb);
  v_old headway.definitions;
  v_row headway.definitions;
  v_code json;
  v_constraint text;
  v_message text;
begin
  insert into headway.definitions (kind, created_at, updated_at, revision)
  values (p_kind, v_now, v_now, 0)
  on conflict do nothing;
  select d.* into strict v_row from headway.definitions d where d.kind = p_kind for update;
  v_old := v_row;
  v_code := coalesce(v_row.code, v_default);
  if v_reset is not null then
    v_row := json_populate_record(
      v_row,
      (select json_object_agg(c.key, coalesce(v_code -> c.key, c.value))
         from json_each(v_default) as c (key, value)
        where c.key = any (v_reset)));
  end if;
  v_row := json_populate_record(
    v_row,
    (select json_object_agg(c.key, c.value)
       from json_each(p_change) as c (key, value)
      where c.key = any (v_fields) or c.key = 'active'));
  perform headway.check_json('schema', v_row.schema), headway.check_json('enqueuer_may', v_row.enqueuer_may),
          headway.check_bounds(p_kind, v_row.enqueuer_may);
  update headway.definitions d
     set description = v_row.description,
         -- a JSON null is stored as an SQL null
         schema = case when v_row.schema::text <> 'null' then v_row.schema end,
         timeout_ms = v_row.timeout_ms,
         max_attempts = v_row.max_attempts,
         queue = v_row.queue,
         enqueuer_may = v_row.enqueuer_may,
         tenants = v_row.tenants,
         active = v_row.active,
         changed = array(
           select f
             from unnest(v_fields) with ordinality as u (f, ordinal)
            where p_change -> f is not null
               or f = any (v_row.changed) and (f = any (v_reset)) is not true
            order by u.ordinal),
         revision = d.revision + 1,
         updated_at = v_now
   where d.kind = p_kind;
  insert into headway.audit (at, actor, action, detail, changes)
  values (v_now, p_actor, 'definition.changed', headway.fields_changed(p_kind, p_change),
          headway.values_changed(row_to_json(v_old), row_to_json(v_row), p_change));
exception when check_violation or not_null_violation or data_exception or statement_too_complex then
  get stacked diagnostics v_constraint = constraint_name, v_message = message_text;
  raise exception using errcode = 'HW004', message = headway.not_valid('definition', p_kind, v_constraint, v_message);
end
$$;

-- What the audit says of a change: the name that it had, and the fields.
create function headway.fields_changed(p_name text, p_change json) returns text
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select p_name || ': ' || coalesce(string_agg(w.words, ', ' order by c.ordinal), 'nothing')
    from json_each(p_change) with ordinality as c (key, value, ordinal)
    cross join lateral (
      select case c.key
               when 'of_revision' then null
               when 'active' then case c.value::text when 'true' then 'activated' else 'deactivated' end
               when 'reset' then (select string_agg('reset ' || r, ', ') from json_array_elements_text(c.value) r)
               else c.key
             end as words
    ) w
$$;

-- A value as the audit keeps it.
create function headway.kept_value(p_value json) returns json
language sql immutable
set search_path = pg_catalog, pg_temp
as $$ select case when length(p_value::text) > 2000 then to_json(length(p_value::text) || ' characters') else p_value end $$;

-- What the audit keeps of a change: the old and the new value of each field that it named and that differs, as JSON;
-- null if none does, or if a row is damaged so that its JSON cannot be read. Of a long value only its length is kept.
-- Both are rows as JSON.
create function headway.values_changed(p_old json, p_new json, p_change json) returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
  return (
    select json_object_agg(
             f.name, json_build_array(headway.kept_value(p_old -> f.name), headway.kept_value(p_new -> f.name)) order by f.name)
      from (select k.name
              from json_object_keys(p_change) as k (name)
             where k.name not in ('of_revision', 'reset', 'next_fire_at')
             union
            select r.name from unnest(headway.texts((p_change -> 'reset')::jsonb)) as r (name)) f
     where coalesce((p_old -> f.name)::text, 'null') <> coalesce((p_new -> f.name)::text, 'null'));
exception when data_exception or statement_too_complex then
  return null;
end
$$;

-- Delete a definition, with what an operator changed; false if there is none. Audited.
create function headway.delete_definition(p_kind text, p_actor text default null) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from headway.definitions d where d.kind = p_kind;
  if not found then
    return false;
  end if;
  insert into headway.audit (at, actor, action, detail)
  values (headway.now(), p_actor, 'definition.deleted', p_kind);
  return true;
end
$$;

-- Write what a worker's code declares, when it starts. p_definitions is a list of NewDefinition in model/definition.py:
-- everything is written but `active` and what an operator changed. p_schedules is a list of NewTrigger in
-- model/trigger.py: everything is written but `enabled`, and next_fire_at only if the schedule is new or its times
-- changed; where nothing differs, only declared_at. One with run_on_start is due at once if it is new, or if no live
-- worker that knows its kind was there before. Gives the ids of the code's schedules in call order: a name that belongs
-- to a stored schedule is left alone.
-- One caller at a time, by an advisory lock; then locks definitions in order of kind, and triggers in order of id, as
-- fires do. Waits only briefly (55P03): the worker starts anyway, and declares later. Raises HW004 (a value out of
-- range).
create function headway.declare(p_definitions json, p_schedules json) returns uuid[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '1s'
as $$
declare
  v_now timestamptz := headway.now();
  v_new headway.triggers;
  v_old headway.triggers;
  v_moved boolean;
  v_running uuid[];
  v_constraint text;
  v_message text;
begin
  perform pg_advisory_xact_lock(headway.lock_key('declare'));
  perform headway.check_bounds(g.kind, g.enqueuer_may)
     from json_to_recordset(p_definitions) as g (kind text, enqueuer_may json);
  insert into headway.definitions as d (
    kind, description, schema, timeout_ms, max_attempts, queue, enqueuer_may, tenants, policy, computed, origin, code, created_at, updated_at)
  select n.kind, n.description, n.schema, n.timeout_ms, n.max_attempts, n.queue, n.enqueuer_may, n.tenants, n.policy, n.computed,
         'code', n.code, v_now, v_now
    from (select g.kind, g.description, case when g.schema::text <> 'null' then g.schema end as schema, g.timeout_ms,
                 g.max_attempts, g.queue, g.enqueuer_may, g.tenants, g.policy, g.computed,
                 json_build_object(
                   'description', g.description, 'schema', g.schema, 'timeout_ms', g.timeout_ms,
                   'max_attempts', g.max_attempts, 'queue', g.queue, 'enqueuer_may', g.enqueuer_may, 'tenants', g.tenants) as code
            from json_to_recordset(p_definitions) as g (
                   kind text, description text, schema json, timeout_ms bigint, max_attempts integer, queue text,
                   enqueuer_may json, tenants text[], policy json, computed boolean)) n
   order by n.kind
  on conflict (kind) do update
    set description = case when 'description' = any (d.changed) then d.description else excluded.description end,
        schema = case when 'schema' = any (d.changed) then d.schema else excluded.schema end,
        timeout_ms = case when 'timeout_ms' = any (d.changed) then d.timeout_ms else excluded.timeout_ms end,
        max_attempts = case when 'max_attempts' = any (d.changed) then d.max_attempts else excluded.max_attempts end,
        queue = case when 'queue' = any (d.changed) then d.queue else excluded.queue end,
        enqueuer_may = case when 'enqueuer_may' = any (d.changed) then d.enqueuer_may else excluded.enqueuer_may end,
        tenants = case when 'tenants' = any (d.changed) then d.tenants else excluded.tenants end,
        policy = excluded.policy,
        computed = excluded.computed,
        origin = 'code',
        code = excluded.code,
        revision = d.revision + 1,
        updated_at = excluded.updated_at
    -- readers compare revisions, and read definitions again when one changed
    where (d.code::text, d.policy::text, d.computed, d.origin)
          is distinct from (excluded.code::text, excluded.policy::text, excluded.computed, 'code');

  perform headway.name_tenant(g.tenant_id, coalesce(g.tenant, g.tenant_id::text), v_now)
     from (select distinct on (g.tenant_id) g.tenant_id, g.tenant
             from json_to_recordset(p_schedules) as g (tenant_id uuid, tenant text)
            order by g.tenant_id) g;
  perform
     from headway.triggers t
     join json_to_recordset(p_schedules) as g (tenant_id uuid, name text)
       on t.tenant_id = g.tenant_id and t.type = 'schedule' and t.name = g.name
    order by t.id
      for update of t;
  -- a worker that registered before the last declaration, or a minute ago, has started this schedule already; one that
  -- registered since starts together with the caller
  v_running := array(
    select t.id
      from headway.triggers t
      join json_to_recordset(p_schedules) as g (tenant_id uuid, name text, run_on_start boolean)
        on t.tenant_id = g.tenant_id and t.type = 'schedule' and t.name = g.name
     where g.run_on_start
       and exists (
             select
               from headway.workers w
              where w.lease_expires_at > v_now
                and w.started_at <= greatest(t.declared_at, v_now - interval '1 minute')
                and t.kind = any (w.kinds)));
  for v_new in
    select g.* from json_populate_recordset(null::headway.triggers, p_schedules) g order by g.tenant_id, g.name
  loop
    v_new.type := 'schedule';
    v_new.origin := 'code';
    v_new.created_at := v_now;
    v_new.updated_at := v_now;
    v_new.declared_at := v_now;
    v_new.revision := 1;
    v_new.next_fire_at := case when v_new.enabled then v_new.next_fire_at end;
    insert into headway.triggers select v_new.* on conflict (tenant_id, type, name) do nothing;
    continue when found;
    select t.*
      into strict v_old
      from headway.triggers t
     where t.tenant_id = v_new.tenant_id and t.type = 'schedule' and t.name = v_new.name
       for update;
    continue when v_old.origin <> 'code';
    v_moved := (v_old.cron, v_old.every_ms, v_old.tz, v_old.start_at, v_old.end_at)
               is distinct from (v_new.cron, v_new.every_ms, v_new.tz, v_new.start_at, v_new.end_at);
    if not v_moved
       and (v_old.kind, v_old.template_id, v_old.payload::text, v_old.options::text, v_old.description, v_old.label, v_old.catch_up,
            v_old.catch_up_window_ms, v_old.overlap, v_old.jitter_ms)
           is not distinct from
           (v_new.kind, v_new.template_id, v_new.payload::text, v_new.options::text, v_new.description, v_new.label, v_new.catch_up,
            v_new.catch_up_window_ms, v_new.overlap, v_new.jitter_ms) then
      update headway.triggers t set declared_at = v_now where t.id = v_old.id;
      continue;
    end if;
    update headway.triggers t
       set kind = v_new.kind,
           template_id = v_new.template_id,
           payload = v_new.payload,
           options = v_new.options,
           description = v_new.description,
           label = v_new.label,
           cron = v_new.cron,
           every_ms = v_new.every_ms,
           tz = v_new.tz,
           catch_up = v_new.catch_up,
           catch_up_window_ms = v_new.catch_up_window_ms,
           overlap = v_new.overlap,
           jitter_ms = v_new.jitter_ms,
           start_at = v_new.start_at,
           end_at = v_new.end_at,
           next_fire_at = case when not v_moved then t.next_fire_at when t.enabled then v_new.next_fire_at end,
           error = null,
           revision = t.revision + 1,
           updated_at = v_now,
           declared_at = v_now
     where t.id = v_old.id;
  end loop;
  -- one that is overdue fires by its catch_up
  update headway.triggers t
     set next_fire_at = v_now
    from json_to_recordset(p_schedules) as g (tenant_id uuid, name text, run_on_start boolean)
   where g.run_on_start
     and t.tenant_id = g.tenant_id
     and t.type = 'schedule'
     and t.name = g.name
     and t.origin = 'code'
     and t.enabled
     and t.next_fire_at > v_now
     and (t.start_at is null or t.start_at <= v_now)
     and t.id <> all (v_running);
  return array(
    select t.id
      from json_array_elements(p_schedules) with ordinality as g (schedule, ordinal)
      join headway.triggers t
        on t.tenant_id = (g.schedule ->> 'tenant_id')::uuid and t.type = 'schedule' and t.name = g.schedule ->> 'name'
     where t.origin = 'code'
     order by g.ordinal);
exception when check_violation or not_null_violation or data_exception then
  get stacked diagnostics v_constraint = constraint_name, v_message = message_text;
  raise exception using errcode = 'HW004', message = headway.not_valid('declaration', null, v_constraint, v_message);
end
$$;
