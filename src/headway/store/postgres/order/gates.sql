-- Gates. What counts is counted from running rows, so nothing can leak. Who decides about a key (a claim that counts, a
-- settle that frees) locks the key's gate first and looks in the next statement. Gates are locked in order of number, a
-- transaction waits for them once, and whoever holds one waits for nothing else: so there are no circles.

-- Lock the gates of these numbers; gives those that it got. Waits only if this transaction has none yet, and p_wait.
create function headway.lock_gates(p_gates smallint[], p_wait boolean default true) returns smallint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_wait and current_setting('headway.gated', true) is distinct from 'on' then
    perform set_config('headway.gated', 'on', true);
    perform from headway.gates g where g.n = any (p_gates) order by g.n for update;
    return p_gates;
  end if;
  perform set_config('headway.gated', 'on', true);
  return array(select g.n from headway.gates g where g.n = any (p_gates) order by g.n for update skip locked);
end
$$;
