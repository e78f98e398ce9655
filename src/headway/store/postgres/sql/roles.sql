-- The roles that logins are made members of: headway_worker runs jobs of every tenant, headway_app acts for one.
-- Needs CREATEROLE. An existing role is left as it is.
do $$
begin
  if not exists (select from pg_roles where rolname = 'headway_worker') then
    create role headway_worker nologin;
  end if;
  if not exists (select from pg_roles where rolname = 'headway_app') then
    create role headway_app nologin;
  end if;
end
$$;
