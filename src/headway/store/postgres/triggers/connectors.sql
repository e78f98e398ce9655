-- Connectors' configurations: where requests go and what they carry, under a name that is unique in its tenant.

-- Store a configuration: NewConnector in model/connector.py, with defaults for missing fields. Gives its id. A repeat
-- with the same id changes nothing. Audited. Raises HW001 (the name is taken), HW003, HW004 (a value out of range).
create function headway.create_connector(p_connector json, p_actor text default null) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_new headway.connector_configs;
  v_made boolean;
  v_constraint text;
  v_message text;
begin
  v_new.id := headway.uuid7();
  v_new.description := '';
  v_new.headers := '{}';
  v_new.options := '{}';
  v_new.events := '[]';
  v_new.enabled := true;
  begin
    v_new := json_populate_record(v_new, p_connector);
    v_new.tenant_id := coalesce(headway.acting_tenant(v_new.tenant_id), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
    v_new.disabled_reason := null;
    v_new.old_secret_ends_at := null;
    v_new.secret_version := 1;
    v_new.revision := 1;
    v_new.created_at := v_now;
    v_new.updated_at := v_now;
    perform headway.check_json('headers', v_new.headers);
    perform headway.check_json('options', v_new.options);
    perform headway.check_json('events', v_new.events);
    perform headway.name_tenant(v_new.tenant_id, coalesce(p_connector ->> 'tenant', v_new.tenant_id::text), v_now);
    insert into headway.connector_configs select v_new.* on conflict do nothing;
    v_made := found;
  exception when check_violation or not_null_violation or data_exception or statement_too_complex then
    get stacked diagnostics v_constraint = constraint_name, v_message = message_text;
    raise exception using errcode = 'HW004', message = headway.not_valid('connector', v_new.name, v_constraint, v_message);
  end;
  if v_made then
    insert into headway.audit (tenant_id, at, actor, action, detail)
    values (v_new.tenant_id, v_now, p_actor, 'connector.created', v_new.name);
    return v_new.id;
  end if;
  perform from headway.connector_configs c where c.id = v_new.id and c.tenant_id = v_new.tenant_id;
  if found then
    return v_new.id;
  end if;
  perform from headway.connector_configs c where c.id = v_new.id;
  if found then
    raise exception 'connector id % is taken: give a new connector an id of its own', v_new.id using errcode = 'HW004';
  end if;
  perform headway.refuse_name('a connector', v_new.name);
end
$$;

-- Change a configuration: p_change has only the fields to set, as ConnectorChange has them. Revision + 1. False if there
-- is no such one. Locks its row. Audited. Raises HW001, HW003 (of_revision is not its revision), HW004.
create function headway.change_connector(
  p_id uuid, p_change json, p_tenant uuid default null, p_actor text default null
) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_old headway.connector_configs;
  v_new headway.connector_configs;
  v_constraint text;
  v_message text;
begin
  select c.*
    into v_old
    from headway.connector_configs c
   where c.id = p_id
     and (v_tenant is null or c.tenant_id = v_tenant)
     for update;
  if not found then
    return false;
  end if;
  if p_change ->> 'of_revision' <> v_old.revision::text then
    raise exception 'connector "%" was changed meanwhile (it has revision %, not %): nothing was stored; read it again, then change it',
      v_old.name, v_old.revision, p_change ->> 'of_revision'
      using errcode = 'HW003';
  end if;
  begin
    v_new := json_populate_record(v_old, p_change);
    perform headway.check_json('headers', v_new.headers);
    perform headway.check_json('options', v_new.options);
    perform headway.check_json('events', v_new.events);
    update headway.connector_configs c
       set name = v_new.name,
           url = v_new.url,
           headers = v_new.headers,
           options = v_new.options,
           events = v_new.events,
           description = v_new.description,
           enabled = v_new.enabled,
           disabled_reason = v_new.disabled_reason,
           secret_version = v_new.secret_version,
           old_secret_ends_at = v_new.old_secret_ends_at,
           revision = c.revision + 1,
           updated_at = v_now
     where c.id = p_id;
  exception
    when unique_violation then
      perform headway.refuse_name('a connector', v_new.name);
    when check_violation or not_null_violation or data_exception or statement_too_complex then
      get stacked diagnostics v_constraint = constraint_name, v_message = message_text;
      raise exception using errcode = 'HW004', message = headway.not_valid('connector', v_new.name, v_constraint, v_message);
  end;
  insert into headway.audit (tenant_id, at, actor, action, detail, changes)
  values (v_old.tenant_id, v_now, p_actor, 'connector.changed', headway.fields_changed(v_old.name, p_change),
          headway.values_changed(row_to_json(v_old), row_to_json(v_new), p_change));
  return true;
end
$$;

-- Delete a configuration; false if there is no such one. Audited.
create function headway.delete_connector(p_id uuid, p_tenant uuid default null, p_actor text default null) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_old headway.connector_configs;
begin
  delete from headway.connector_configs c
   where c.id = p_id
     and (v_tenant is null or c.tenant_id = v_tenant)
  returning c.* into v_old;
  if not found then
    return false;
  end if;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (v_old.tenant_id, headway.now(), p_actor, 'connector.deleted', v_old.name);
  return true;
end
$$;
