-- Who may do what, as far as the roles exist. Runs after every installation of the functions.
revoke execute on all functions in schema headway from public;

do $$
begin
  if exists (select from pg_roles where rolname = 'headway_worker') then
    grant usage on schema headway to headway_worker;
    grant select on all tables in schema headway to headway_worker;
    grant execute on all functions in schema headway to headway_worker;
    drop policy if exists worker_sees_all on headway.tenants;
    drop policy if exists worker_sees_all on headway.jobs;
    drop policy if exists worker_sees_all on headway.attempts;
    drop policy if exists worker_sees_all on headway.audit;
    create policy worker_sees_all on headway.tenants to headway_worker using (true);
    create policy worker_sees_all on headway.jobs to headway_worker using (true);
    create policy worker_sees_all on headway.attempts to headway_worker using (true);
    create policy worker_sees_all on headway.audit to headway_worker using (true);
    -- only what definer functions call from inside
    revoke execute on function
      headway.end_attempts, headway.retry_as_new, headway.supersede, headway.end_early, headway.holder, headway.enqueued, headway.name_tenant
      from headway_worker;
  end if;
  if exists (select from pg_roles where rolname = 'headway_app') then
    grant usage on schema headway to headway_app;
    grant select on headway.tenants, headway.jobs, headway.attempts, headway.audit, headway.queues to headway_app;
    grant execute on function
      headway.tenant, headway.now, headway.uuid7, headway.enqueue, headway.enqueue_many,
      headway.cancel, headway.retry, headway.change, headway.listening
      to headway_app;
  end if;
end
$$;
