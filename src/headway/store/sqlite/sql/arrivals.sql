-- Differs because writers are serial: what arrives is only the rest of what was too much for one transaction.

-- name: leave
insert into arrivals (what, id)
values (?1, ?2)
on conflict do nothing;

-- name: take
delete from arrivals
where seq = (select min(seq) from arrivals)
returning what, id;

-- name: any
select exists (select 1 from arrivals);
