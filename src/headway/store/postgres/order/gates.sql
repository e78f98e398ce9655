-- Gates: rows to lock before a limit is decided. Usage is counted from running rows, so no count can leak. A
-- transaction that decides about a key (a claim that counts, a settle that frees) locks its gate and counts in the next
-- statement, which sees what the gate's last holder committed. No deadlocks: gates are locked in order of number, a
-- transaction waits for them only once, and while it has one it waits for nothing else.

-- Lock the gates of these numbers; gives those that it got. Waits only if this transaction has none yet
-- (headway.gated).
create function headway.lock_gates(p_gates smallint[]) returns smallint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if current_setting('headway.gated', true) = 'on' then
    return headway.try_lock_gates(p_gates);
  end if;
  perform set_config('headway.gated', 'on', true);
  perform from headway.gates g where g.n = any (p_gates) order by g.n for update;
  return p_gates;
end
$$;

-- Lock those of these gates that nobody has; gives them.
create function headway.try_lock_gates(p_gates smallint[]) returns smallint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform set_config('headway.gated', 'on', true);
  return array(select g.n from headway.gates g where g.n = any (p_gates) order by g.n for update skip locked);
end
$$;
