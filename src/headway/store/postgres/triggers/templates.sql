-- Templates: a kind, a payload and options under a name, which is unique in its tenant.

-- Store a template: NewTemplate in model/template.py, with defaults for missing fields. Gives its id. A repeat with the
-- same id changes nothing. Audited. Raises HW001 (the name is taken), HW003, HW004 (a value out of range).
create function headway.create_template(p_template json, p_actor text default null) returns uuid
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_new headway.templates;
  v_made boolean;
  v_constraint text;
  v_message text;
begin
  v_new.id := headway.uuid7();
  v_new.description := '';
  v_new.payload := '{}';
  v_new.options := '{}';
  begin
    v_new := json_populate_record(v_new, p_template);
    v_new.tenant_id := coalesce(headway.acting_tenant(v_new.tenant_id), 'cbc7797a-7d82-5166-9044-8e0ae3cba0bc');
    v_new.revision := 1;
    v_new.created_at := v_now;
    v_new.updated_at := v_now;
    perform headway.check_json('payload', v_new.payload);
    perform headway.check_json('options', v_new.options);
    if not headway.trusted() then
      v_new.options := headway.restrict_stored(v_new.kind, v_new.options);
    end if;
    perform headway.name_tenant(v_new.tenant_id, coalesce(p_template ->> 'tenant', v_new.tenant_id::text), v_now);
    insert into headway.templates select v_new.* on conflict do nothing;
    v_made := found;
  exception when check_violation or not_null_violation or data_exception or statement_too_complex then
    get stacked diagnostics v_constraint = constraint_name, v_message = message_text;
    raise exception using errcode = 'HW004', message = headway.not_valid('template', v_new.name, v_constraint, v_message);
  end;
  if v_made then
    insert into headway.audit (tenant_id, at, actor, action, detail)
    values (v_new.tenant_id, v_now, p_actor, 'template.created', v_new.name);
    return v_new.id;
  end if;
  perform from headway.templates m where m.id = v_new.id and m.tenant_id = v_new.tenant_id;
  if found then
    return v_new.id;
  end if;
  perform from headway.templates m where m.id = v_new.id;
  if found then
    raise exception 'template id % is taken: give a new template an id of its own', v_new.id using errcode = 'HW004';
  end if;
  perform headway.refuse_name('a template', v_new.name);
end
$$;

-- Change a template: p_change has only the fields to set: name, kind, payload, options, description. Revision + 1; jobs
-- that were made from it stay as they are. False if there is no such template. Locks its row. Audited. Raises HW001,
-- HW003, HW004.
create function headway.change_template(p_id uuid, p_change json, p_tenant uuid default null, p_actor text default null)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := headway.now();
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_old headway.templates;
  v_new headway.templates;
  v_constraint text;
  v_message text;
begin
  select m.*
    into v_old
    from headway.templates m
   where m.id = p_id
     and (v_tenant is null or m.tenant_id = v_tenant)
     for update;
  if not found then
    return false;
  end if;
  begin
    v_new := json_populate_record(v_old, p_change);
    perform headway.check_json('payload', v_new.payload);
    perform headway.check_json('options', v_new.options);
    if not headway.trusted() and (v_new.kind, v_new.options::text) is distinct from (v_old.kind, v_old.options::text) then
      v_new.options := headway.restrict_stored(v_new.kind, v_new.options);
      update headway.triggers t
         set options = headway.restrict_stored(v_new.kind, t.options)
       where t.template_id = p_id
         and v_new.kind <> v_old.kind;
    end if;
    update headway.templates m
       set name = v_new.name,
           kind = v_new.kind,
           payload = v_new.payload,
           options = v_new.options,
           description = v_new.description,
           revision = m.revision + 1,
           updated_at = v_now
     where m.id = p_id;
  exception
    when unique_violation then
      perform headway.refuse_name('a template', v_new.name);
    when check_violation or not_null_violation or data_exception or statement_too_complex then
      get stacked diagnostics v_constraint = constraint_name, v_message = message_text;
      raise exception using errcode = 'HW004', message = headway.not_valid('template', v_new.name, v_constraint, v_message);
  end;
  insert into headway.audit (tenant_id, at, actor, action, detail, changes)
  values (v_old.tenant_id, v_now, p_actor, 'template.changed', headway.fields_changed(v_old.name, p_change),
          headway.values_changed(row_to_json(v_old), row_to_json(v_new), p_change));
  return true;
end
$$;

-- Delete a template; false if there is no such template. Locks its row, of which a new trigger takes a share lock.
-- Audited. Raises HW003 while a trigger uses it.
create function headway.delete_template(p_id uuid, p_tenant uuid default null, p_actor text default null) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tenant uuid := headway.acting_tenant(p_tenant);
  v_old headway.templates;
  v_names text[];
begin
  select m.*
    into v_old
    from headway.templates m
   where m.id = p_id
     and (v_tenant is null or m.tenant_id = v_tenant)
     for update;
  if not found then
    return false;
  end if;
  v_names := array(
    select case t.type when 'schedule' then 'schedule "' else 'event trigger "' end || t.name || '"'
      from headway.triggers t
     where t.template_id = p_id
     order by t.name, t.id
     limit 4);
  if cardinality(v_names) > 0 then
    raise exception 'template "%" is used by %: nothing was deleted; delete these first, or let them use another one',
      v_old.name, array_to_string(v_names[:3], ', ') || case when cardinality(v_names) > 3 then ' and others' else '' end
      using errcode = 'HW003';
  end if;
  delete from headway.templates m where m.id = p_id;
  insert into headway.audit (tenant_id, at, actor, action, detail)
  values (v_old.tenant_id, headway.now(), p_actor, 'template.deleted', v_old.name);
  return true;
end
$$;
