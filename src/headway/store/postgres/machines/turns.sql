-- Turns: what the end of a machine's step writes besides the job's new status.

-- Write the turns of machines that end_attempts has just moved, with their rows locked: another queue and partition,
-- and the signals consumed; then wake those whose Await is satisfied already. Gives the keys of partitions that were
-- left.
create function headway.write_turns(p_ids uuid[], p_fences integer[], p_turns jsonb[], p_now timestamptz) returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
  v_moves boolean;
  v_consumes boolean;
  v_parked uuid[];
  v_left text[];
begin
  select bool_or(t.turn ? 'queue'), bool_or(t.turn ? 'consumed'), array_agg(t.id) filter (where t.turn ? 'awaiting')
    into v_moves, v_consumes, v_parked
    from unnest(p_ids, p_turns) as t (id, turn);
  if v_moves then
    v_left := array(
      select headway.partition_key(j.tenant_id, j.partition)
        from unnest(p_ids, p_turns) as t (id, turn)
        join headway.jobs j on j.id = t.id
       where t.turn ? 'queue'
         and (j.partition <> coalesce(t.turn ->> 'partition', '')) is true);
    update headway.jobs j
       set queue = t.turn ->> 'queue',
           partition = t.turn ->> 'partition',
           home_queue = t.turn ->> 'home_queue',
           home_partition = t.turn ->> 'home_partition',
           fair = headway.is_marked(j.tenant_id, t.turn ->> 'queue')
      from unnest(p_ids, p_turns) as t (id, turn)
     where j.id = t.id
       and t.turn ? 'queue';
  end if;
  if v_consumes then
    update headway.signals s
       set fence = c.fence, consumed_at = p_now
      from (select t.id, t.fence, jsonb_array_elements_text(t.turn -> 'consumed')::uuid as signal_id
              from unnest(p_ids, p_fences, p_turns) as t (id, fence, turn)) c
     where s.id = c.signal_id
       and (s.job_id = c.id and s.fence is null) is true;
  end if;
  if v_parked is not null then
    -- a signal sent after this check leaves an arrival, which is processed after our commit
    perform headway.wake_satisfied(v_parked, p_now);
  end if;
  return v_left;
end
$$;

-- Where a machine is, as JSON of Checkpoint in model/machine.py. Put together as text, which keeps the state as it was
-- written.
create function headway.checkpoint_json(
  p_version integer, p_step text, p_state json, p_awaiting text[], p_match_all boolean, p_joining integer, p_woken text,
  p_partition text, p_home_queue text, p_home_partition text, p_forked_from uuid, p_parent_id uuid, p_signals json
) returns text
language sql stable
as $$
  select '{' || pg_catalog.concat_ws(
    ',',
    '"version":' || p_version,
    '"step":' || pg_catalog.to_json(p_step),
    '"state":' || p_state,
    '"awaiting":' || pg_catalog.to_json(p_awaiting),
    case when p_match_all then '"match":"all"' end,
    '"joining":' || p_joining,
    '"woken":"' || p_woken || '"',
    '"partition":' || pg_catalog.to_json(p_partition),
    '"home_queue":' || pg_catalog.to_json(p_home_queue),
    '"home_partition":' || pg_catalog.to_json(p_home_partition),
    '"forked_from":"' || p_forked_from || '"',
    '"parent_id":"' || p_parent_id || '"',
    '"signals":' || p_signals
  ) || '}'
$$;
