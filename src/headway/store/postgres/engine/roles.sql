-- The roles that are granted to logins: one runs jobs of every tenant, the other acts for one tenant. Roles belong to
-- the whole server, so their names contain the database's (headway.role_name): a login of another database gets no
-- rights here. Needs CREATEROLE. An existing role is left as it is.
do $$
declare
  v_role name;
begin
  foreach v_role in array array[headway.role_name('worker'), headway.role_name('app')] loop
    if to_regrole(quote_ident(v_role)) is null then
      execute format('create role %I nologin', v_role);
    end if;
  end loop;
  -- so that the HTTP server can take it on; the maker of an existing role may have reserved that right
  begin
    execute format('grant %I to %I', headway.role_name('app'), current_user);
  exception when insufficient_privilege then
    raise warning 'this login may not take on the role %: the HTTP server will have one wall only', headway.role_name('app');
  end;
end
$$;

-- from now on every installation of functions renews the grants
update headway.install set has_roles = true;
