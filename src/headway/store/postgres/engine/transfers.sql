-- Transfers: a database whose work is being moved, or was, refuses writes.

-- Refuses every write but those of the transfer itself. A transfer makes triggers of it, on each table that it moves:
-- a database that is not being moved pays nothing.
-- "or replace": triggers keep it while the other functions are reinstalled
create or replace function headway.refuse_moved() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_transfer headway.store_transfers;
begin
  select * into v_transfer
    from headway.store_transfers t
   where t.role = 'source' and t.phase in ('sealed', 'done') or t.role = 'target' and t.phase in ('copying', 'aborted')
   order by t.started_at desc
   limit 1;
  if current_setting('headway.transfer', true) = v_transfer.id::text then
    return null;
  end if;
  if v_transfer.role = 'target' then
    raise exception 'work is being moved into this database from %: it can be used when headway transfer has finished', v_transfer.peer
      using errcode = 'HW009';
  end if;
  raise exception 'the work of this database was moved to %: use that one', v_transfer.peer using errcode = 'HW009';
end
$$;
