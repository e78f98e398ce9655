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
  execute format('revoke execute on all functions in schema headway from %I, %I', v_worker, v_app);
  for v_table in select p.tablename from pg_policies p where p.schemaname = 'headway' and p.policyname = 'tenant_isolation' loop
    execute format('drop policy if exists worker_sees_all on headway.%I', v_table);
    execute format('create policy worker_sees_all on headway.%I to %I using (true)', v_table, v_worker);
  end loop;
  -- a function that is not named below is only for the owner and for other functions
  execute format(
    'grant execute on function
      headway.fold_stats,
      headway.depths,
      headway.prune_stats,
      headway.take_error_deltas,
      headway.add_errors,
      headway.prune_errors,
      headway.claim,
      headway.claim_once,
      headway.first_in_line,
      headway.take,
      headway.claimable,
      headway.running,
      headway.report,
      headway.release,
      headway.promote,
      headway.retentions,
      headway.prune,
      headway.seal_audit,
      headway.prune_audit,
      headway.begin_artifact,
      headway.keep_artifact,
      headway.trash,
      headway.empty_trash,
      headway.prune_windows,
      headway.reap,
      headway.declare_dead,
      headway.commit_outcome,
      headway.take_committed,
      headway.settle,
      headway.succeed,
      headway.settle_and_claim,
      headway.complete,
      headway.complete_many,
      headway.fail,
      headway.fail_many,
      headway.process_arrivals,
      headway.set_fair,
      headway.set_limit,
      headway.reserve,
      headway.unreserve,
      headway.sweep,
      headway.add_children,
      headway.record,
      headway.begin_record,
      headway.add_called,
      headway.settle_step,
      headway.set_flow_state,
      headway.flow_news,
      headway.is_called,
      headway.leave,
      headway.change_definition,
      headway.delete_definition,
      headway.declare,
      headway.due,
      headway.begin_fires,
      headway.begin_handling,
      headway.signal_each,
      headway.record_fires,
      headway.prune_fires,
      headway.pause,
      headway.pause_all,
      headway.resume,
      headway.resume_all,
      headway.set_retention,
      headway.register,
      headway.heartbeat,
      headway.heartbeat_claims,
      headway.set_worker,
      headway.queue_names,
      headway.prune_requests,
      headway.prune_lists,
      headway.prune_sessions,
      headway.retire,
      headway.unregister,
      headway.create_tenant,
      headway.rename_tenant,
      headway.set_tenant_zone,
      headway.suspend_tenant,
      headway.resume_tenant,
      headway.tenant_rows
      to %I', v_worker);
  execute format(
    'grant select on
      headway.tenants,
      headway.jobs,
      headway.attempts,
      headway.flow_journal,
      headway.artifacts,
      headway.job_tags,
      headway.unique_windows,
      headway.audit,
      headway.holds,
      headway.edges,
      headway.groups,
      headway.limits,
      headway.signals,
      headway.definitions,
      headway.templates,
      headway.connector_configs,
      headway.triggers,
      headway.fires,
      headway.events,
      headway.stat_deltas,
      headway.stats,
      headway.error_deltas,
      headway.errors,
      headway.job_errors
      to %I', v_app);
  execute format('grant select (id) on headway.install to %I', v_app);
  execute format('grant select on headway.schema_steps to %I', v_app);
  execute format(
    'grant execute on function
      headway.stat_facts,
      headway.time_bounds,
      headway.tenant,
      headway.refuse_suspended,
      headway.now,
      headway.uuid7,
      headway.cancel,
      headway.change,
      headway.lock_row,
      headway.delete,
      headway.enqueue_many,
      headway.enqueue_plain,
      headway.enqueue,
      headway.move,
      headway.retry,
      headway.new_group,
      headway.cancel_group,
      headway.retry_group,
      headway.list,
      headway.usage,
      headway.hold_train,
      headway.resume_train,
      headway.skip,
      headway.clear_train,
      headway.forked,
      headway.copy_journal,
      headway.forget,
      headway.journal,
      headway.signal_many,
      headway.signal,
      headway.signal_key,
      headway.emit_many,
      headway.emit,
      headway.retry_events,
      headway.event_patterns,
      headway.begin_payloads,
      headway.keep_payloads,
      headway.begin_run,
      headway.run_trigger,
      headway.begin_backfill,
      headway.backfill,
      headway.create_template,
      headway.change_template,
      headway.delete_template,
      headway.create_connector,
      headway.change_connector,
      headway.delete_connector,
      headway.create_trigger,
      headway.change_trigger,
      headway.delete_trigger,
      headway.queue_settings,
      headway.listening,
      headway.begin_request,
      headway.finish_request,
      headway.keep_list,
      headway.read_list,
      headway.advance_list,
      headway.tenants_named
      to %I, %I', v_app, v_worker);
  -- not for workers, who are trusted: they could make keys of super admins
  execute format(
    'grant execute on function
      headway.create_key,
      headway.list_keys,
      headway.revoke_key
      to %I', v_app);
end
$$;
