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
    drop policy if exists worker_sees_all on headway.holds;
    drop policy if exists worker_sees_all on headway.edges;
    drop policy if exists worker_sees_all on headway.groups;
    drop policy if exists worker_sees_all on headway.signals;
    drop policy if exists worker_sees_all on headway.templates;
    drop policy if exists worker_sees_all on headway.triggers;
    drop policy if exists worker_sees_all on headway.fires;
    drop policy if exists worker_sees_all on headway.events;
    create policy worker_sees_all on headway.tenants to headway_worker using (true);
    create policy worker_sees_all on headway.jobs to headway_worker using (true);
    create policy worker_sees_all on headway.attempts to headway_worker using (true);
    create policy worker_sees_all on headway.audit to headway_worker using (true);
    create policy worker_sees_all on headway.holds to headway_worker using (true);
    create policy worker_sees_all on headway.edges to headway_worker using (true);
    create policy worker_sees_all on headway.groups to headway_worker using (true);
    create policy worker_sees_all on headway.signals to headway_worker using (true);
    create policy worker_sees_all on headway.templates to headway_worker using (true);
    create policy worker_sees_all on headway.triggers to headway_worker using (true);
    create policy worker_sees_all on headway.fires to headway_worker using (true);
    create policy worker_sees_all on headway.events to headway_worker using (true);
    -- only what definer functions call from inside
    revoke execute on function
      headway.end_attempts, headway.end_attempts_entering, headway.retry_as_new, headway.retry_one, headway.reopen, headway.repoint, headway.put_back, headway.supersede,
      headway.supersede_entering, headway.end_early, headway.leave, headway.holder, headway.enqueued,
      headway.name_tenant, headway.follow, headway.tell, headway.advance, headway.let_go, headway.let_go_apart,
      headway.couple_once, headway.lock_gates, headway.let_in, headway.demands, headway.rooms, headway.room, headway.rate_started, headway.claim_limited, headway.claims, headway.pick_fair,
      headway.ready_fair, headway.refill, headway.join_jobs, headway.release_children, headway.unhold,
      headway.stop_groups, headway.seats, headway.seat_is_free, headway.check_pending, headway.add_edges, headway.join_group,
      headway.line, headway.renumber, headway.take_turns, headway.wake, headway.unpark, headway.deliver, headway.satisfied,
      headway.stop_children, headway.end_all_early, headway.ready, headway.inbox, headway.announce, headway.check_active,
      headway.use_template, headway.unfinished, headway.changes, headway.not_valid, headway.check_json, headway.flaw,
      headway.refuse_job, headway.lose, headway.forget, headway.start, headway.busy_keys, headway.is_name, headway.check_new
      from headway_worker;
  end if;
  if exists (select from pg_roles where rolname = 'headway_app') then
    grant usage on schema headway to headway_app;
    grant select on
      headway.tenants, headway.jobs, headway.attempts, headway.audit, headway.queues, headway.holds, headway.edges,
      headway.groups, headway.limits, headway.reservations, headway.signals, headway.definitions, headway.templates,
      headway.triggers, headway.fires, headway.events
      to headway_app;
    grant execute on function
      headway.tenant, headway.now, headway.uuid7, headway.enqueue, headway.enqueue_plain, headway.enqueue_many,
      headway.cancel, headway.retry, headway.change, headway.move, headway.skip, headway.usage, headway.listening,
      headway.hold_train, headway.resume_train, headway.clear_train,
      headway.new_group, headway.cancel_group, headway.retry_group,
      headway.signal, headway.signal_key, headway.signal_many, headway.forked,
      headway.emit, headway.emit_many, headway.retry_events,
      headway.create_template, headway.change_template, headway.delete_template,
      headway.create_trigger, headway.change_trigger, headway.delete_trigger, headway.begin_run, headway.run_trigger
      to headway_app;
  end if;
end
$$;
