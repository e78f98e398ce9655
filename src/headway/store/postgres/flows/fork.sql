-- Forks of flows: a new flow whose journal begins as another one's.

-- Copy the answers and `due` notes of a flow's journal that count and whose number is below p_before to a new flow that
-- names it as forked_from and has not run; those of p_seqs get other values, and have not failed then. Does it once.
create function headway.copy_journal(
  p_to uuid, p_from uuid, p_before integer, p_seqs integer[] default null, p_values json[] default null
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_scope uuid := headway.acting_tenant(null);
begin
  perform
     from headway.jobs n
     join headway.jobs o on o.id = n.forked_from and o.tenant_id = n.tenant_id
    where n.id = p_to
      and o.id = p_from
      and n.step = '$flow'
      and n.fence = 0
      and (v_scope is null or n.tenant_id = v_scope);
  if not found then
    return;
  end if;
  insert into headway.flow_journal (job_id, tenant_id, at, print, seq, fence, took_ms, kind, place, value, error)
  select p_to, j.tenant_id, f.at, f.print, f.seq, 0, f.took_ms,
         case when r.replaced and f.kind = 'failed' then 'done' else f.kind end, f.place,
         case when r.replaced then p_values[array_position(p_seqs, f.seq)] else f.value end,
         case when not r.replaced then f.error end
    from headway.effective(p_from) f
    join headway.jobs j on j.id = p_to
    cross join lateral (select (f.seq = any (p_seqs)) is true as replaced) r
   where f.seq between 0 and p_before - 1
     and f.kind in ('done', 'failed', 'signal', 'ended', 'timer', 'cancel', 'due')
  on conflict do nothing;
end
$$;
