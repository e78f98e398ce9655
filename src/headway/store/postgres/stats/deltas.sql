-- Deltas: what a transaction did, left for fold_stats to add up. Settle and enqueue insert theirs in
-- their own statements.

-- Count these jobs, which were canceled before they ran, or gave up their claim unstarted.
create function headway.count_canceled(p_ids uuid[], p_now timestamptz) returns void
language sql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
  insert into headway.stat_deltas (at, tenant_id, queue, kind, canceled)
  select p_now, j.tenant_id, j.queue, j.kind, count(*)
    from headway.jobs j
   where j.id = any (p_ids)
   group by j.tenant_id, j.queue, j.kind
$$;

-- Which jobs of a batch of this size keep their times: those whose hash has none of these bits, about 32 at random
-- (SAMPLES of model/stats.py).
create function headway.sampled(p_batch integer) returns integer
language sql immutable
as $$
  select case when p_batch > 512 then 31 when p_batch > 256 then 15 when p_batch > 128 then 7 when p_batch > 64 then 3
              when p_batch > 32 then 1 else 0 end
$$;

-- A time as a delta holds it: whole milliseconds, none below zero if a clock went backwards. One expression, so that it is
-- inlined.
create function headway.elapsed_ms(p_from timestamptz, p_to timestamptz) returns integer
language sql immutable
as $$
  select least(greatest(pg_catalog.date_part('epoch', p_to - p_from) * 1000, 0), 2147483647)::integer
$$;
