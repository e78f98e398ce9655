-- Differs because writers are serial: an arrival is only what was too much for one transaction.

-- name: postpone
insert into arrivals (what, id, tenant_id)
values (
  ?1,
  ?2,
  coalesce(
    case ?1
      when 'clearing' then ?2 ->> 0
      when 'resumed' then ?2
      when 'stopping' then (select tenant_id from groups where id = ?2)
      else (select tenant_id from jobs where id = ?2)
    end,
    ''
  )
)
on conflict do nothing;

-- name: take
-- the first arrival of the next tenant in turn
delete from arrivals
where seq = coalesce(
  (select seq from arrivals indexed by arrivals_turn where tenant_id > ?1 order by tenant_id, seq limit 1),
  (select seq from arrivals indexed by arrivals_turn order by tenant_id, seq limit 1)
)
returning what, id, tenant_id;

-- name: any
select exists (select 1 from arrivals);
