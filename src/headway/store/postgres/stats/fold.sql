-- Fold: add deltas up to the numbers of minutes, hours and days.

-- Histograms as one: how many by number of bucket.
create function headway.added(p_times jsonb[]) returns jsonb
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(jsonb_object_agg(a.bucket, a.count), '{}')
    from (select e.key as bucket, sum(e.value::bigint) as count
            from unnest(p_times) as t (times)
            cross join lateral jsonb_each_text(t.times) e
           group by e.key) a
$$;

-- The bounds of the buckets in milliseconds: BOUNDS_MS of model/stats.py.
create function headway.time_bounds() returns double precision[]
language sql immutable
as $$
  select '{1,2,3,4,6,8,12,16,24,32,48,64,96,128,192,256,384,512,768,1024,1536,2048,3072,4096,6144,8192,12288,16384,24576,32768,49152,65536,98304,131072,196608,262144,393216,524288,786432,1048576,1572864,2097152,3145728,4194304,6291456,8388608,12582912,16777216,25165824,33554432,50331648,67108864,100663296,134217728,201326592,268435456,402653184,536870912,805306368,1073741824,1610612736,2147483648}'::double precision[]
$$;

-- The numbers of these deltas by minute, as `facts` of model/stats.py: an execution counts as started, with its wait, in
-- the minute of its start. Reads as the caller.
create function headway.stat_facts(p_rows tid[])
returns table (
  at timestamptz, tenant_id uuid, queue text, kind text, enqueued bigint, started bigint, succeeded bigint,
  failed bigint, retried bigint, dead bigint, canceled bigint, lost bigint, waits jsonb, runs jsonb)
language sql stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
  with d as materialized (
    select s.*, date_bin('1 minute', s.at, timestamptz '2000-01-01 00:00:00+00') as minute
      from headway.stat_deltas s
     where s.ctid = any (p_rows)
  ), ended as materialized (
    select d.minute,
           date_bin('1 minute', d.at - e.run * interval '1 millisecond', timestamptz '2000-01-01 00:00:00+00') as began,
           d.tenant_id, d.queue, d.kind,
           width_bucket(e.wait, headway.time_bounds()) as wait, width_bucket(e.run, headway.time_bounds()) as run,
           -- each stands for its share of those that ended
           sum(d.ended * e.n / cardinality(d.runs) - d.ended * (e.n - 1) / cardinality(d.runs)) as times
      from d
      cross join lateral unnest(d.waits::double precision[], d.runs::double precision[])
                 with ordinality as e (wait, run, n)
     group by 1, 2, 3, 4, 5, 6, 7
  ), parts as (
    select d.minute as at, d.tenant_id, d.queue, d.kind, sum(d.enqueued) as enqueued,
           sum(d.ended) filter (where d.runs is null) as started,
           sum(d.succeeded) as succeeded, sum(d.failed) as failed, sum(d.retried) as retried, sum(d.dead) as dead,
           sum(d.canceled) as canceled, sum(d.lost) as lost, null::jsonb as waits, null::jsonb as runs
      from d
     group by 1, 2, 3, 4
    union all
    select w.began, w.tenant_id, w.queue, w.kind, null, sum(w.times), null, null, null, null, null, null,
           jsonb_object_agg(w.wait, w.times), null
      from (select e.began, e.tenant_id, e.queue, e.kind, e.wait, sum(e.times) as times
              from ended e
             group by 1, 2, 3, 4, 5) w
     group by 1, 2, 3, 4
    union all
    select r.minute, r.tenant_id, r.queue, r.kind, null, null, null, null, null, null, null, null, null,
           jsonb_object_agg(r.run, r.times)
      from (select e.minute, e.tenant_id, e.queue, e.kind, e.run, sum(e.times) as times
              from ended e
             group by 1, 2, 3, 4, 5) r
     group by 1, 2, 3, 4
  )
  select p.at, p.tenant_id, p.queue, p.kind, coalesce(sum(p.enqueued), 0)::bigint, coalesce(sum(p.started), 0)::bigint,
         coalesce(sum(p.succeeded), 0)::bigint, coalesce(sum(p.failed), 0)::bigint, coalesce(sum(p.retried), 0)::bigint,
         coalesce(sum(p.dead), 0)::bigint, coalesce(sum(p.canceled), 0)::bigint, coalesce(sum(p.lost), 0)::bigint,
         coalesce((array_agg(p.waits) filter (where p.waits is not null))[1], '{}'),
         coalesce((array_agg(p.runs) filter (where p.runs is not null))[1], '{}')
    from parts p
   group by 1, 2, 3, 4
$$;

-- Add up to p_limit deltas, and a sample of depths if nobody has taken this minute's, to the numbers of their minutes,
-- hours and days, and delete them. Gives how many deltas; none while another session folds. Locks rows that nobody else
-- writes, but for prune_stats.
create function headway.fold_stats(
  p_limit integer,
  p_tenants uuid[] default null,
  p_queues text[] default null,
  p_kinds text[] default null,
  p_depths integer[] default null,
  p_oldest_ms bigint[] default null
) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_now timestamptz := headway.now();
  v_rows tid[];
  v_sampled boolean := false;
begin
  if not pg_try_advisory_xact_lock(headway.lock_key('stats')) then
    return 0;
  end if;
  if p_depths is not null then
    insert into headway.stat_samples as s (at)
    values (v_now)
    on conflict (only_one) do update
      set at = v_now
      where date_bin('1 minute', s.at, timestamptz '2000-01-01 00:00:00+00')
            <> date_bin('1 minute', v_now, timestamptz '2000-01-01 00:00:00+00')
    returning true into v_sampled;
  end if;
  -- a new statement for each: nobody but this function deletes deltas, so the rows are the same
  v_rows := array(select d.ctid from headway.stat_deltas d limit p_limit);
  if cardinality(v_rows) = 0 and v_sampled is not true then
    return 0;
  end if;
  with facts as materialized (
    select f.at, f.tenant_id, f.queue, f.kind, f.enqueued, f.started, f.succeeded, f.failed, f.retried, f.dead,
           f.canceled, f.lost, f.waits, f.runs, null::integer as depth, null::bigint as oldest_ms,
           date_bin('1 day', f.at, timestamptz '2000-01-01 00:00:00+00') as day
      from headway.stat_facts(v_rows) f
    union all
    select date_bin('1 minute', v_now, timestamptz '2000-01-01 00:00:00+00'), u.tenant_id, u.queue, u.kind,
           0, 0, 0, 0, 0, 0, 0, 0, '{}', '{}', u.depth, u.oldest_ms,
           date_bin('1 day', v_now, timestamptz '2000-01-01 00:00:00+00')
      from unnest(p_tenants, p_queues, p_kinds, p_depths, p_oldest_ms) as u (tenant_id, queue, kind, depth, oldest_ms)
     where v_sampled
  ), keys as (
    select k.*, exists (
             select
               from headway.stats s
              where s.tenant_id = k.tenant_id and s.span = 'day' and s.at = k.day
                and s.queue = k.queue and s.kind = k.kind) as known
      from (select distinct f.tenant_id, f.day, f.queue, f.kind from facts f) k
  ), named as (
    -- a day's numbers have a limited number of kinds: what comes later that day is added up as one
    select k.tenant_id, k.day, k.queue, k.kind,
           k.known
           or row_number() over (partition by k.tenant_id, k.day, k.known order by k.queue, k.kind)
              + (select count(*)
                   from headway.stats s
                  where s.tenant_id = k.tenant_id and s.span = 'day' and s.at = k.day
                    and s.queue <> '(other)' and s.queue <> '') <= 250
             as own
      from keys k
  ), rows as (
    select f.tenant_id, f.at, case when n.own then f.queue else '(other)' end as queue,
           case when n.own then f.kind else '(other)' end as kind, f.enqueued, f.started, f.succeeded, f.failed,
           f.retried, f.dead, f.canceled, f.lost, f.waits, f.runs, f.depth, f.oldest_ms
      from facts f
      join named n on n.tenant_id = f.tenant_id and n.day = f.day and n.queue = f.queue and n.kind = f.kind
    union all
    -- the sums: of each tenant, of each queue of all tenants, and of everything
    select case l.level when 'tenants' then f.tenant_id else '00000000-0000-0000-0000-000000000000'::uuid end, f.at,
           case l.level when 'queues' then f.queue else '' end, '', sum(f.enqueued), sum(f.started), sum(f.succeeded),
           sum(f.failed), sum(f.retried), sum(f.dead), sum(f.canceled), sum(f.lost), headway.added(array_agg(f.waits)),
           headway.added(array_agg(f.runs)), sum(f.depth)::integer, max(f.oldest_ms)
      from facts f
      cross join (values ('tenants'), ('queues'), ('total')) as l (level)
     group by 1, 2, 3
  )
  insert into headway.stats as s (
    tenant_id, span, at, queue, kind, enqueued, started, succeeded, failed, retried, dead, canceled, lost, waits, runs,
    depth, oldest_ms)
  select f.tenant_id, p.span, date_bin(p.width, f.at, timestamptz '2000-01-01 00:00:00+00'),
         f.queue, f.kind,
         sum(f.enqueued), sum(f.started), sum(f.succeeded), sum(f.failed), sum(f.retried), sum(f.dead), sum(f.canceled),
         sum(f.lost), headway.added(array_agg(f.waits)), headway.added(array_agg(f.runs)), max(f.depth), max(f.oldest_ms)
    from rows f
    cross join (values ('minute', interval '1 minute'), ('hour', interval '1 hour'), ('day', interval '1 day'))
         as p (span, width)
   group by 1, 2, 3, 4, 5
   order by 1, 2, 3, 4, 5
  on conflict (tenant_id, span, at, queue, kind) do update
    set enqueued = s.enqueued + excluded.enqueued,
        started = s.started + excluded.started,
        succeeded = s.succeeded + excluded.succeeded,
        failed = s.failed + excluded.failed,
        retried = s.retried + excluded.retried,
        dead = s.dead + excluded.dead,
        canceled = s.canceled + excluded.canceled,
        lost = s.lost + excluded.lost,
        waits = case when excluded.waits = '{}' then s.waits else headway.added(array[s.waits, excluded.waits]) end,
        runs = case when excluded.runs = '{}' then s.runs else headway.added(array[s.runs, excluded.runs]) end,
        depth = greatest(s.depth, excluded.depth),
        oldest_ms = greatest(s.oldest_ms, excluded.oldest_ms);
  delete from headway.stat_deltas d where d.ctid = any (v_rows);
  return cardinality(v_rows);
end
$$;

-- What is queued now, by tenant, queue and kind, and how long the oldest of each has been: of each queue the first
-- 100,000 in the order of claims, and as many that limits have set aside. No rows if this minute has its sample.
create function headway.depths()
returns table (tenant_id uuid, queue text, kind text, depth integer, oldest_ms bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set jit = off
set enable_seqscan = off
as $$
  with recursive queues (name) as (
    (select j.queue from headway.jobs j where j.status = 'queued' and j.limited_by is null order by j.queue limit 1)
    union all
    select (select j.queue
              from headway.jobs j
             where j.status = 'queued' and j.limited_by is null and j.queue > q.name
             order by j.queue
             limit 1)
      from queues q
     where q.name is not null
  ), waiting as (
    select f.*
      from queues q
      cross join lateral (
        select j.tenant_id, j.queue, j.kind, j.queued_at
          from headway.jobs j
         where j.queue = q.name and j.status = 'queued' and j.limited_by is null
         order by j.priority, j.position, j.id
         limit 100000) f
     where q.name is not null
    union all
    (select j.tenant_id, j.queue, j.kind, j.queued_at
       from headway.jobs j
      where j.limited_by is not null
      limit 100000)
  )
  select w.tenant_id, w.queue, w.kind, count(*)::integer,
         greatest(0, date_part('epoch', headway.now() - min(w.queued_at)) * 1000)::bigint
    from waiting w
   group by w.tenant_id, w.queue, w.kind
$$;

-- Delete up to p_limit rows of this span that began before; gives how many.
create function headway.prune_stats(p_span text, p_older_than_ms bigint, p_limit integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_kept_ms bigint := headway.kept_at_least('stats_' || p_span || 's', p_older_than_ms);
  v_count integer;
begin
  delete from headway.stats s
   where s.ctid = any (array(
           select o.ctid
             from headway.stats o
            where o.span = p_span
              and o.at < headway.now() - v_kept_ms * interval '1 millisecond'
            order by o.at
            limit p_limit));
  get diagnostics v_count = row_count;
  return v_count;
end
$$;
