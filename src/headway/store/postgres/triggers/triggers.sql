-- Triggers: schedules and event triggers. Names are unique in their tenant and type.

-- Store a trigger: NewTrigger in model/trigger.py, with defaults for missing fields. Gives its id. A repeat with the
-- same id changes nothing. Takes a share lock of its template's row. Audited. Raises HW001 (the name is taken), HW003,
-- HW004 (a value out of range), HW006 (there is no such template, or it is another tenant's).
create function headway.create_trigger(p_trigger json, p_actor text default null) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_new headway.triggers;
  v_made boolean;
  v_constraint text;
  v_message text;
begin
  v_new.id := headway.uuid7();
  v_new.description := '';
  v_new.payload := '{}';
  v_new.options := '{}';
  v_new."when" := '{}';
  v_new.enabled := true;
  v_new.tz := 'UTC';
  v_new.catch_up := 'latest';
  v_new.catch_up_window_ms := 86400000;
  v_new.overlap := 'allow';
  v_new.jitter_ms := 0;
  v_new.dedupe_window_ms := 300000;
  begin
    v_new := json_populate_record(v_new, p_trigger);
    v_new.tenant_id := coalesce(headway.acting_tenant(v_new.tenant_id), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
    v_new.origin := 'stored';
    v_new.revision := 1;
    v_new.created_at := v_now;
    v_new.updated_at := v_now;
    v_new.declared_at := null;
    v_new.last_fired_at := null;
    v_new.last_job_id := null;
    v_new.error := null;
    perform headway.check_json('payload', v_new.payload);
    perform headway.check_json('options', v_new.options);
    perform headway.check_json('when', v_new."when");
    perform headway.name_tenant(v_new.tenant_id, coalesce(p_trigger ->> 'tenant', v_new.tenant_id::text), v_now);
    perform headway.use_template(v_new.template_id, v_new.tenant_id);
    if not headway.trusted() then
      v_new.options := headway.restrict_stored(headway.kind_made(v_new), v_new.options);
    end if;
    perform from headway.triggers t where t.id = v_new.id or t.tenant_id = v_new.tenant_id and t.type = v_new.type and t.name = v_new.name;
    if not found then
      perform headway.check_schedule_quota(v_new.tenant_id);
    end if;
    insert into headway.triggers select v_new.* on conflict do nothing;
    v_made := found;
  exception when check_violation or not_null_violation or data_exception or statement_too_complex then
    get stacked diagnostics v_constraint = constraint_name, v_message = message_text;
    raise exception using errcode = 'HW004', message = headway.not_valid('trigger', v_new.name, v_constraint, v_message);
  end;
  if v_made then
    insert into headway.audit (tenant_id, at, actor, action, detail)
    values (v_new.tenant_id, v_now, p_actor, 'trigger.created', v_new.name);
    return v_new.id;
  end if;
  perform from headway.triggers t where t.id = v_new.id and t.tenant_id = v_new.tenant_id;
  if found then
    return v_new.id;
  end if;
  perform from headway.triggers t where t.id = v_new.id;
  if found then
    raise exception 'trigger id % is taken: give a new trigger an id of its own', v_new.id using errcode = 'HW004';
  end if;
  perform headway.refuse_name(case v_new.type when 'schedule' then 'a schedule' else 'an event trigger' end, v_new.name);
end
$$;

-- The kind of the jobs that a trigger makes.
create function headway.kind_made(p_trigger headway.triggers) returns text
language sql stable
as $$ select coalesce(p_trigger.kind, (select m.kind from headway.templates m where m.id = p_trigger.template_id)) $$;

-- Share-lock the template of a trigger, so that it is not deleted meanwhile; does nothing for null. Raises HW006.
create function headway.use_template(p_template uuid, p_tenant uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_template is null then
    return;
  end if;
  perform from headway.templates m where m.id = p_template and m.tenant_id = p_tenant for key share;
  if not found then
    raise exception 'there is no template % (or it is another tenant''s): nothing was stored', p_template
      using errcode = 'HW006';
  end if;
end
$$;

-- Change a trigger: p_change has only the fields to set, as TriggerChange in model/trigger.py. Revision + 1, which
-- makes void any firing planned before; clears its error. False if there is no such trigger. Locks its row, and takes a
-- share lock of its template's. Audited. Raises HW001, HW003 (also if its revision is not of_revision), HW004, HW006.
create function headway.change_trigger(p_id uuid, p_change json, p_tenant uuid default null, p_actor text default null)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_old headway.triggers;
  v_new headway.triggers;
  v_constraint text;
  v_message text;
begin
  select t.*
    into v_old
    from headway.triggers t
   where t.id = p_id
     and (v_tenant is null or t.tenant_id = v_tenant)
     for update;
  if not found then
    return false;
  end if;
  begin
    if p_change ->> 'of_revision' <> v_old.revision::text then
      raise exception '% "%" was changed meanwhile (it has revision %, not %): nothing was stored; read it again, then change it',
        case v_old.type when 'schedule' then 'schedule' else 'event trigger' end, v_old.name, v_old.revision,
        p_change ->> 'of_revision'
        using errcode = 'HW003';
    end if;
    v_new := json_populate_record(v_old, p_change);
    perform headway.check_json('payload', v_new.payload);
    perform headway.check_json('options', v_new.options);
    perform headway.check_json('when', v_new."when");
    if v_new.template_id is distinct from v_old.template_id then
      perform headway.use_template(v_new.template_id, v_old.tenant_id);
    end if;
    if not headway.trusted()
       and (v_new.kind, v_new.template_id, v_new.options::text)
           is distinct from (v_old.kind, v_old.template_id, v_old.options::text) then
      v_new.options := headway.restrict_stored(headway.kind_made(v_new), v_new.options);
    end if;
    update headway.triggers t
       set name = v_new.name,
           kind = v_new.kind,
           template_id = v_new.template_id,
           payload = v_new.payload,
           options = v_new.options,
           description = v_new.description,
           enabled = v_new.enabled,
           cron = v_new.cron,
           every_ms = v_new.every_ms,
           tz = v_new.tz,
           catch_up = v_new.catch_up,
           catch_up_window_ms = v_new.catch_up_window_ms,
           overlap = v_new.overlap,
           jitter_ms = v_new.jitter_ms,
           start_at = v_new.start_at,
           end_at = v_new.end_at,
           next_fire_at = v_new.next_fire_at,
           event = v_new.event,
           "when" = v_new."when",
           dedupe_window_ms = v_new.dedupe_window_ms,
           dedupe_key = v_new.dedupe_key,
           signal = v_new.signal,
           signal_to = v_new.signal_to,
           label = v_new.label,
           error = null,
           revision = t.revision + 1,
           updated_at = v_now
     where t.id = p_id;
  exception
    when unique_violation then
      perform headway.refuse_name(
        case v_old.type when 'schedule' then 'a schedule' else 'an event trigger' end, v_new.name);
    when check_violation or not_null_violation or data_exception or statement_too_complex then
      get stacked diagnostics v_constraint = constraint_name, v_message = message_text;
      raise exception using errcode = 'HW004', message = headway.not_valid('trigger', v_new.name, v_constraint, v_message);
  end;
  insert into headway.audit (tenant_id, at, actor, action, detail, changes)
  values (v_old.tenant_id, v_now, p_actor, 'trigger.changed', headway.fields_changed(v_old.name, p_change),
          headway.values_changed(row_to_json(v_old), row_to_json(v_new), p_change));
  return true;
end
$$;

-- Delete a trigger; its jobs and fires stay. False if there is no such trigger. Audited. Raises HW003.
create function headway.delete_trigger(p_id uuid, p_tenant uuid default null, p_actor text default null) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_old headway.triggers;
begin
  delete from headway.triggers t
   where t.id = p_id
     and (v_tenant is null or t.tenant_id = v_tenant)
  returning t.* into v_old;
  if not found then
    return false;
  end if;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (v_old.tenant_id, headway.now(), p_actor, 'trigger.deleted', v_old.name);
  return true;
end
$$;

-- The message for a row that a constraint or a type refuses. model/checks.py checks before, with better messages.
create function headway.not_valid(p_what text, p_name text, p_constraint text, p_message text) returns text
language sql immutable
as $$
  select coalesce(p_what || ' "' || p_name || '"', 'the ' || p_what) || ': '
         || case pg_catalog.substr(p_constraint, pg_catalog.strpos(p_constraint, '_') + 1)
              when 'names' then 'names, kinds, queues and events are 1 to 128 letters, digits and . _ - : /'
              when 'json' then 'payload, options, when, enqueuer_may and policy must be JSON objects'
              when 'numbers' then 'a number is out of its range (every_ms: 1000 to 3162240000000)'
              when 'times' then 'start_at, end_at and next_fire_at must be from 1970-01-01 to 9000-01-01'
              when 'makes' then 'give exactly one of kind, template and, for an event, signal with signal_to'
              when 'fires' then 'give a schedule exactly one of cron and every, and an event trigger an event'
              else p_message
            end
         || '; nothing was stored'
$$;

-- Refuse a name that another template or trigger of the tenant has. Raises HW001.
create function headway.refuse_name(p_what text, p_name text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  raise exception 'there is % "%" already: nothing was stored; change that one, or choose another name', p_what, p_name
    using errcode = 'HW001';
end
$$;

-- Refuse a JSON text that PostgreSQL accepts but other readers do not: numbers beyond a double, lone surrogates, NUL,
-- more than 64 levels (model/codec.py), or more than p_limit bytes. Raises HW004.
create function headway.check_json(p_name text, p_json json, p_limit integer default null) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if octet_length(p_json::text) > p_limit then
    raise exception 'the % is % bytes of JSON, over the limit of %: store the blob elsewhere (a file, an object store, a table) and pass a reference to it',
      p_name, to_char(octet_length(p_json::text), 'FM999,999,999,999'), to_char(p_limit, 'FM999,999,999,999')
      using errcode = 'HW004';
  end if;
  if jsonb_path_exists(p_json::jsonb, 'strict $.**{64 to last} ? (@.type() == "object" || @.type() == "array")')
     or jsonb_path_exists(
          p_json::jsonb,
          'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))') then
    raise exception 'the % cannot be read: it is nested deeper than 64 levels, or has a number beyond 1.8e308', p_name
      using errcode = 'HW004';
  end if;
exception when data_exception or statement_too_complex then
  raise exception 'the % cannot be read: %', p_name, sqlerrm using errcode = 'HW004';
end
$$;
