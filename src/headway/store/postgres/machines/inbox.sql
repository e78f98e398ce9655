-- The inbox: the unconsumed signals that a claim brings to its worker.

-- The signals that a machine has not consumed, as JSON: up to 8 MiB and 1,000 of them (INBOX_BYTES and INBOX_SIGNALS in
-- model/signal.py), but at least one. First one of each name that it awaits, then the others of these names, then the
-- rest, oldest first; what does not fit stays for a later step.
-- Volatile, to take a snapshot after the claim has locked the row: between the claim's own snapshot and that lock the
-- machine may have run, consumed some signals and been woken again.
create function headway.inbox(p_job uuid, p_awaiting text[] default null) returns json
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  v_count bigint;
  v_size bigint;
  v_one record;
  v_bytes bigint := 0;
  v_ids uuid[] := '{}';
begin
  -- sizes as stored, without reading the payloads: what is below 64 KiB here is far below 8 MiB as text
  select count(*), sum(pg_column_size(s.payload))
    into v_count, v_size
    from headway.signals s
   where s.job_id = p_job
     and s.fence is null;
  if v_count = 0 then
    return null;
  end if;
  if v_count <= 1000 and v_size <= 65536 then
    return (
      select json_agg(headway.received(s.id, s.name, s.payload, s.sent_at, s.dedup_key, s.trace_id) order by s.seq)
        from headway.signals s
       where s.job_id = p_job
         and s.fence is null);
  end if;
  for v_one in
    -- the length is read outside, after the sort: payloads beyond the limit are never read
    select o.id, (select octet_length(s.payload::text) from headway.signals s where s.id = o.id) as bytes
      from (select s.id
              from headway.signals s
             where s.job_id = p_job
               and s.fence is null
             order by case
                        when (s.name = any (p_awaiting)) is not true then 2
                        when row_number() over (partition by s.name order by s.seq) > 1 then 1
                        else 0
                      end,
                      s.seq
             limit 1000) o
  loop
    v_bytes := v_bytes + v_one.bytes;
    exit when v_bytes > 8388608 and cardinality(v_ids) > 0;
    v_ids := v_ids || v_one.id;
  end loop;
  return (
    select json_agg(headway.received(s.id, s.name, s.payload, s.sent_at, s.dedup_key, s.trace_id) order by s.seq)
      from headway.signals s
     where s.id = any (v_ids));
end
$$;

-- How many bytes of signals inbox() brings to this machine, about; null if it has none. Reads no further than they go.
create function headway.inbox_bytes(p_job uuid) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_one bigint;
  v_bytes bigint;
begin
  for v_one in
    select headway.text_bytes(s.payload)
      from headway.signals s
     where s.job_id = p_job
       and s.fence is null
     order by s.seq
     limit 1000
  loop
    v_bytes := coalesce(v_bytes, 0) + v_one;
    exit when v_bytes >= 8388608;
  end loop;
  -- least() passes over a null: without this, a job without signals would count as full
  return case when v_bytes is not null then least(v_bytes, 8388608) end;
end
$$;

-- A signal as a claim brings it: Received in model/signal.py.
create function headway.received(
  p_id uuid, p_name text, p_payload json, p_sent_at timestamptz, p_dedup_key text, p_trace_id text
) returns json
language sql stable
as $$
  select pg_catalog.json_build_array(
    p_id, p_name, p_payload,
    -- an infinite time, which SQL may have written, must not fail a claim
    case when isfinite(p_sent_at) then (extract(epoch from p_sent_at) * 1000000)::bigint else 0 end, p_dedup_key,
    p_trace_id)
$$;
