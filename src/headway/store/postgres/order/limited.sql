-- Jobs that wait aside for a limit (limited_by).

-- Make room known: as many jobs aside as each key is named, in each queue that has some, may be claimed again.
create function headway.let_in(p_keys text[], p_wait boolean default true) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_gates smallint[] := array(select distinct headway.gate(k) from unnest(p_keys) k);
  v_got smallint[] := headway.lock_gates(v_gates, p_wait);
begin
  if cardinality(v_got) < cardinality(v_gates) then
    insert into headway.arrivals (keys)
    select array_agg(k) from unnest(p_keys) k where headway.gate(k) <> all (v_got);
    p_keys := array(select k from unnest(p_keys) k where headway.gate(k) = any (v_got));
  end if;
  with recursive wanted as (
    select k.key, count(*) as n
      from unnest(p_keys) as k (key)
     where (select 1 from headway.jobs j where j.limited_by = k.key limit 1) is not null
     group by k.key
  ), lane (key, n, queue) as (
    -- the queues that have some, each by one probe
    select w.key, w.n,
           (select j.queue from headway.jobs j where j.limited_by = w.key order by j.queue limit 1)
      from wanted w
    union all
    select l.key, l.n,
           (select j.queue from headway.jobs j where j.limited_by = l.key and j.queue > l.queue order by j.queue limit 1)
      from lane l
     where l.queue is not null
  ), first as materialized (
    select l.key, f.id
      from lane l
      cross join lateral (
        select j.id
          from headway.jobs j
         where j.limited_by = l.key and j.queue = l.queue
         order by j.priority, j.position, j.id
         limit l.n
      ) f
     where l.queue is not null
  ), locked as materialized (
    -- lateral: by id and in no other way, whatever the statistics say
    select l.id
      from first f
      cross join lateral (
        select j.id from headway.jobs j where j.id = f.id and j.limited_by is not null for update skip locked) l
  ), back as (
    update headway.jobs j
       set limited_by = null
      from locked l
     where j.id = l.id
    returning j.id
  )
  insert into headway.arrivals (keys)
  select array_agg(f.key)
    from first f
   where f.id not in (select b.id from back b)
  having count(*) > 0;
end
$$;
