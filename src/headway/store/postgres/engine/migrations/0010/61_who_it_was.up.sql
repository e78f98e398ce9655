-- locks: install and audit, for a moment
-- the retention of whoever migrated last, in milliseconds by name: others than the owner delete nothing sooner
alter table headway.install add column retention jsonb;

-- who acts through a login of one tenant is that login: what it says of itself is only its name
create function headway.audit_actor() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_login text := headway.bound_login();
begin
  if v_login is not null then
    new.actor_name := coalesce(new.actor, new.actor_name);
    new.actor := v_login;
  end if;
  return new;
end
$$;

create trigger audit_actor
before insert on headway.audit
for each row execute function headway.audit_actor();
