-- What the roles may do, if they were created (roles.sql). Runs after every installation of the functions.
-- One function per line, in the order of the files, so that two changes rarely conflict.
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
  -- a worker may call every function but these, which only other functions and the owner call
  execute format(
    'revoke execute on function
      headway.check_new,
      headway.is_name,
      headway.lock_key,
      headway.queue_lock,
      headway.limits_lock,
      headway.grant_worker,
      headway.grant_app,
      headway.cancel_job,
      headway.cancel_jobs,
      headway.cancel_waiting,
      headway.cancel_all_waiting,
      headway.hold_trains_of,
      headway.offer_keys,
      headway.flaw,
      headway.refuse_job,
      headway.check_active,
      headway.claims,
      headway.claim_limited,
      headway.start,
      headway.busy_keys,
      headway.end_attempts,
      headway.end_attempts_entering,
      headway.enqueued,
      headway.line,
      headway.renumber,
      headway.delete_jobs,
      headway.limits_of,
      headway.lock_quotas,
      headway.lock_job_quotas,
      headway.check_job_quotas,
      headway.lock_event_quotas,
      headway.check_event_quotas,
      headway.check_schedule_quota,
      headway.lose,
      headway.restrict,
      headway.restrict_queue,
      headway.restrict_timeout,
      headway.restrict_key,
      headway.bound,
      headway.refuse_option,
      headway.restrict_change,
      headway.restrict_stored,
      headway.as_ms,
      headway.retry_all,
      headway.retry_one,
      headway.retry_as_new,
      headway.revive,
      headway.reopen,
      headway.holder,
      headway.supersede,
      headway.supersede_entering,
      headway.couple_once,
      headway.process_arrivals,
      headway.process_each,
      headway.warn_of,
      headway.demands,
      headway.rooms,
      headway.room,
      headway.ready_fair,
      headway.pick_fair,
      headway.follow,
      headway.follow_later,
      headway.ended,
      headway.tell_dependents,
      headway.lock_gates,
      headway.try_lock_gates,
      headway.join_group,
      headway.stop_groups_later,
      headway.stop_groups,
      headway.add_edges,
      headway.join_jobs,
      headway.decide_children,
      headway.stop_waiting,
      headway.repoint,
      headway.admit,
      headway.try_admit,
      headway.admit_under,
      headway.rate_started,
      headway.refill,
      headway.expire_reservations,
      headway.stuck_machines,
      headway.advance,
      headway.depart,
      headway.depart_each,
      headway.seats,
      headway.seat_is_free,
      headway.clear_some,
      headway.stop_children,
      headway.began,
      headway.inbox,
      headway.take_turns,
      headway.deliver,
      headway.wake_satisfied,
      headway.satisfied,
      headway.wake,
      headway.changes,
      headway.left_to_others,
      headway.announce,
      headway.unfinished,
      headway.kind_made,
      headway.use_template,
      headway.not_valid,
      headway.check_json,
      headway.name_tenant,
      headway.tenants_in_turn
      from %I', v_worker);
  execute format(
    'grant select on
      headway.tenants,
      headway.jobs,
      headway.attempts,
      headway.audit,
      headway.holds,
      headway.edges,
      headway.groups,
      headway.limits,
      headway.signals,
      headway.definitions,
      headway.templates,
      headway.triggers,
      headway.fires,
      headway.events
      to %I', v_app);
  execute format('grant select (id) on headway.install to %I', v_app);
  execute format(
    'grant execute on function
      headway.tenant,
      headway.now,
      headway.uuid7,
      headway.cancel,
      headway.change,
      headway.enqueue_many,
      headway.enqueue_plain,
      headway.enqueue,
      headway.move,
      headway.retry,
      headway.new_group,
      headway.cancel_group,
      headway.retry_group,
      headway.usage,
      headway.hold_train,
      headway.resume_train,
      headway.skip,
      headway.clear_train,
      headway.forked,
      headway.signal_many,
      headway.signal,
      headway.signal_key,
      headway.emit_many,
      headway.emit,
      headway.retry_events,
      headway.begin_run,
      headway.run_trigger,
      headway.create_template,
      headway.change_template,
      headway.delete_template,
      headway.create_trigger,
      headway.change_trigger,
      headway.delete_trigger,
      headway.queue_settings,
      headway.listening,
      headway.tenants_named
      to %I', v_app);
end
$$;
