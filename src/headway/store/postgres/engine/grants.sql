-- Who may do what, where the roles were asked for (roles.sql). Runs after every installation of the functions.
revoke execute on all functions in schema headway from public;

do $$
declare
  v_worker name := headway.role_name('worker');
  v_app name := headway.role_name('app');
  v_table name;
begin
  if not (select i.has_roles from headway.install i)
     or to_regrole(quote_ident(v_worker)) is null
     or to_regrole(quote_ident(v_app)) is null
  then
    return;
  end if;
  execute format('grant usage on schema headway to %I, %I', v_worker, v_app);
  execute format('grant select on all tables in schema headway to %I', v_worker);
  execute format('grant execute on all functions in schema headway to %I', v_worker);
  for v_table in select p.tablename from pg_policies p where p.schemaname = 'headway' and p.policyname = 'tenant_isolation' loop
    execute format('drop policy if exists worker_sees_all on headway.%I', v_table);
    execute format('create policy worker_sees_all on headway.%I to %I using (true)', v_table, v_worker);
  end loop;
  -- only the owner, and what definer functions call from inside
  execute format(
    'revoke execute on function
      headway.end_attempts, headway.end_attempts_entering, headway.retry_as_new, headway.retry_all, headway.retry_one, headway.revive, headway.reopen, headway.repoint, headway.put_back, headway.supersede,
      headway.supersede_entering, headway.end_early, headway.leave, headway.holder, headway.enqueued,
      headway.name_tenant, headway.follow, headway.tell, headway.advance, headway.let_go, headway.let_go_apart,
      headway.couple_once, headway.lock_gates, headway.let_in, headway.demands, headway.rooms, headway.room, headway.rate_started, headway.claim_limited, headway.claims, headway.pick_fair,
      headway.ready_fair, headway.refill, headway.join_jobs, headway.release_children, headway.unhold,
      headway.stop_groups, headway.clear_some, headway.seats, headway.seat_is_free, headway.metered, headway.check_quotas, headway.limits_of, headway.lock_quota, headway.event_quotas, headway.check_events,
      headway.check_schedules, headway.add_edges, headway.join_group,
      headway.line, headway.renumber, headway.take_turns, headway.wake, headway.unpark, headway.deliver, headway.satisfied,
      headway.stop_children, headway.end_all_early, headway.began, headway.ready, headway.inbox, headway.announce, headway.check_active,
      headway.use_template, headway.unfinished, headway.changes, headway.not_valid, headway.check_json, headway.flaw,
      headway.refuse_job, headway.restrict, headway.restrict_queue, headway.restrict_timeout, headway.restrict_key, headway.bound, headway.refuse_option,
      headway.restrict_stored, headway.restrict_change, headway.as_ms, headway.kind_made, headway.left_to_others, headway.due_owners, headway.event_owners, headway.lose, headway.forget, headway.look_at, headway.look_at_each, headway.start, headway.busy_keys, headway.is_name, headway.check_new,
      headway.grant_worker, headway.grant_app, headway.expire_reservations, headway.lock_key, headway.queue_lock, headway.limits_lock
      from %I', v_worker);
  execute format(
    'grant select on
      headway.tenants, headway.jobs, headway.attempts, headway.audit, headway.holds, headway.edges,
      headway.groups, headway.limits, headway.signals, headway.definitions, headway.templates,
      headway.triggers, headway.fires, headway.events
      to %I', v_app);
  execute format('grant select (id) on headway.install to %I', v_app);
  execute format(
    'grant execute on function
      headway.tenant, headway.tenants_named, headway.now, headway.uuid7, headway.enqueue, headway.enqueue_plain,
      headway.enqueue_many,
      headway.cancel, headway.retry, headway.change, headway.move, headway.skip, headway.usage, headway.queue_settings, headway.listening,
      headway.hold_train, headway.resume_train, headway.clear_train,
      headway.new_group, headway.cancel_group, headway.retry_group,
      headway.signal, headway.signal_key, headway.signal_many, headway.forked,
      headway.emit, headway.emit_many, headway.retry_events,
      headway.create_template, headway.change_template, headway.delete_template,
      headway.create_trigger, headway.change_trigger, headway.delete_trigger, headway.begin_run, headway.run_trigger
      to %I', v_app);
end
$$;
