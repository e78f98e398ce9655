-- Rates: what a bucket remembers of its starts, and how many more it allows; the same arithmetic as model/bucket.py.
-- With a burst it is a token bucket. Without, it keeps the last start of each 64th of the period and how many there
-- were, so that no period ever sees more starts than the rate allows. A missing bucket is a full one.

create function headway.micros(p_at timestamptz) returns bigint
language sql immutable
as $$ select (extract(epoch from p_at) * 1000000)::bigint $$;

-- The time of a token bucket: now, or when it was last taken from, by a claim that began later and came first. Further
-- ahead than a claim can be, the clock was set back, and now counts.
create function headway.rate_time(p_at timestamptz, p_now timestamptz) returns timestamptz
language sql immutable
as $$ select case when p_at > p_now and p_at < p_now + interval '1 minute' then p_at else p_now end $$;

-- How many more may start now; below 1: none.
create function headway.rate_room(
  p_bucket headway.buckets, p_count integer, p_period_ms bigint, p_burst integer, p_now timestamptz
) returns double precision
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select case
           when p_burst is not null
             then coalesce(
                    least(p_burst,
                          -- sums of fractions
                          p_bucket.tokens + 1e-9
                          + greatest(0, extract(epoch from p_now - p_bucket.at)) * 1000 * p_count / p_period_ms),
                    p_burst)
           else p_count - coalesce(
                  (select sum(s.many)
                     from unnest(p_bucket.starts, p_bucket.counts) as s (at, many)
                    where s.at > headway.micros(p_now) - p_period_ms * 1000),
                  0)
         end
$$;

-- The bucket after more have started.
create function headway.rate_started(
  p_bucket headway.buckets, p_many integer, p_count integer, p_period_ms bigint, p_burst integer, p_now timestamptz,
  out at timestamptz, out tokens double precision, out starts bigint[], out counts integer[], out full_at timestamptz
)
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_slot bigint := greatest(1, p_period_ms * 1000 / 64);
begin
  at := p_now;
  tokens := 0;
  if p_burst is not null then
    at := headway.rate_time(p_bucket.at, p_now);
    tokens := greatest(0, headway.rate_room(p_bucket, p_count, p_period_ms, p_burst, p_now) - p_many);
    full_at := at + (p_burst - tokens) * p_period_ms * interval '1 millisecond' / p_count;
    return;
  end if;
  -- a claim that began earlier may commit later: a slot keeps its latest start
  select array_agg(s.at order by s.at), array_agg(s.many order by s.at)
    into starts, counts
    from (select max(s.at) as at, sum(s.many) as many
            from (select o.at, o.many
                    from unnest(p_bucket.starts, p_bucket.counts) as o (at, many)
                   where o.at > headway.micros(p_now) - p_period_ms * 1000
                  union all
                  select headway.micros(p_now), p_many) s
           group by s.at / v_slot) s;
  full_at := to_timestamp(starts[cardinality(starts)] / 1000000.0) + p_period_ms * interval '1 millisecond';
end
$$;

-- When the rate will allow one more start than now.
create function headway.rate_next(
  p_bucket headway.buckets, p_count integer, p_period_ms bigint, p_burst integer, p_now timestamptz
) returns timestamptz
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select case
           when p_burst is not null
             then headway.rate_time(p_bucket.at, p_now) + greatest(1 - (r.room - floor(r.room)), 0.001) * p_period_ms * interval '1 millisecond' / p_count
           else coalesce(
                  (select to_timestamp(min(s.at) / 1000000.0)
                     from unnest(p_bucket.starts) as s (at)
                    where s.at > headway.micros(p_now) - p_period_ms * 1000),
                  p_now)
                + p_period_ms * interval '1 millisecond'
         end
    from (select headway.rate_room(p_bucket, p_count, p_period_ms, p_burst, p_now) as room) r
$$;

-- Bring back jobs set aside for rates that allow another start, and delete buckets that are full again.
create function headway.refill(p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bucket headway.buckets;
  v_first headway.jobs;
  v_limit record;
  v_room double precision;
begin
  for v_bucket in
    select b.*
      from headway.buckets b
     where b.wake_at <= p_now
     order by b.wake_at
     limit 100
       for update skip locked
  loop
    select j.* into v_first from headway.jobs j where j.limited_by = v_bucket.key limit 1;
    if not found then
      update headway.buckets b set wake_at = null where b.key = v_bucket.key;
      continue;
    end if;
    select d.* into v_limit from headway.limits_on(array[v_first.id]) d where d.key = v_bucket.key;
    if not found then
      -- the rate is gone
      update headway.jobs j set limited_by = null where j.limited_by = v_bucket.key;
      update headway.buckets b set wake_at = null where b.key = v_bucket.key;
      continue;
    end if;
    v_room := headway.rate_room(
      v_bucket, v_limit.rate_count, v_limit.rate_period_ms, v_limit.burst, p_now);
    if v_room >= 1 then
      perform headway.admit(array_fill(v_bucket.key, array[floor(v_room)::integer]));
    end if;
    perform from headway.jobs j where j.limited_by = v_bucket.key limit 1;
    update headway.buckets b
       set wake_at = case when found
                          then headway.rate_next(
                                 v_bucket, v_limit.rate_count, v_limit.rate_period_ms, v_limit.burst, p_now)
                     end
     where b.key = v_bucket.key;
  end loop;

  delete from headway.buckets b
   where b.key in (select o.key
                     from headway.buckets o
                    where o.full_at <= p_now
                      and o.wake_at is null
                    order by o.full_at
                    limit 1000
                      for update skip locked);
end
$$;
