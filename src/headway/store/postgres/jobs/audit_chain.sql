-- The audit's chain: seals over batches of committed entries, each with the hash of the one before.

-- A value of an entry as it is hashed: its length in bytes and itself, so that no two entries look alike.
create function headway.hashed_part(p_value text) returns text
language sql immutable
as $$ select coalesce(pg_catalog.octet_length(p_value) || ':' || p_value, '~') $$;

-- The hash of an entry: entry_hash of model/audit_chain.py.
create function headway.audit_hash(a headway.audit) returns bytea
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select sha256(convert_to(
    headway.hashed_part(a.id::text) || headway.hashed_part((extract(epoch from a.at) * 1000000)::bigint::text)
    || headway.hashed_part(a.tenant_id::text) || headway.hashed_part(a.job_id::text) || headway.hashed_part(a.actor)
    || headway.hashed_part(a.actor_name) || headway.hashed_part(a.action) || headway.hashed_part(a.detail)
    || headway.hashed_part(a.changes) || headway.hashed_part(a.request_id) || headway.hashed_part(a.address), 'UTF8'))
$$;

-- Seal up to p_limit (500 at most) committed entries that have no seal yet, the oldest first, and of long ones fewer; gives how
-- many. Which ones a seal covers stands in each entry, so one that commits late gets a later seal. Writers of entries never
-- wait for it. One at a time: nothing while another session seals or prunes.
create function headway.seal_audit(p_limit integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_last headway.audit_seals;
  v_new headway.audit_seals;
  v_ids bigint[];
begin
  if not pg_try_advisory_xact_lock(headway.lock_key('audit')) then
    return 0;
  end if;
  -- in new statements: what another session sealed before is seen
  select * into v_last from headway.audit_seals s order by s.n desc limit 1;
  v_ids := array(
    select o.id
      from (select u.id,
                   sum(coalesce(length(u.detail), 0) + coalesce(length(u.changes), 0)) over (order by u.id) as size,
                   row_number() over (order by u.id) as n
              from (select a.id, a.detail, a.changes
                      from headway.audit a
                     where a.seal is null
                     order by a.id
                     limit least(greatest(p_limit, 0), 500)
                       for update skip locked) u) o
     where o.size <= 1000000 or o.n = 1);
  if cardinality(v_ids) = 0 then
    return 0;
  end if;
  v_new.n := coalesce(v_last.n, 0) + 1;
  update headway.audit a
     set seal = v_new.n,
         hash = headway.audit_hash(a)
   where a.id = any (v_ids);
  select min(a.id), max(a.id), count(*), max(a.at), headway.now(),
         sha256(coalesce(v_last.hash, decode(repeat('00', 32), 'hex'))
                || convert_to(v_new.n || ' ' || count(*) || ' ', 'UTF8') || string_agg(a.hash, ''::bytea order by a.id))
    into v_new.first_id, v_new.last_id, v_new.entries, v_new.newest_at, v_new.sealed_at, v_new.hash
    from headway.audit a
   where a.id = any (v_ids);
  insert into headway.audit_seals select v_new.*;
  return v_new.entries;
end
$$;

-- Delete the entries of the oldest seals, those whose last entry is older than this, until p_limit are deleted; gives how
-- many. The newest of these seals stays: the chain goes on from its hash. What is not sealed yet stays. A caller that is not
-- the owner deletes nothing younger than its retention. One at a time, and not while another session seals.
create function headway.prune_audit(p_older_than_ms bigint, p_limit integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_before timestamptz := headway.now() - headway.kept_at_least('audit', p_older_than_ms) * interval '1 millisecond';
  v_seal headway.audit_seals;
  v_count integer;
  v_total integer := 0;
begin
  if not pg_try_advisory_xact_lock(headway.lock_key('audit')) then
    return 0;
  end if;
  for v_seal in select * from headway.audit_seals s order by s.n loop
    exit when v_total >= p_limit or v_seal.newest_at >= v_before;
    delete from headway.audit a where a.id between v_seal.first_id and v_seal.last_id and a.seal = v_seal.n;
    get diagnostics v_count = row_count;
    v_total := v_total + v_count;
    delete from headway.audit_seals s where s.n < v_seal.n;
  end loop;
  return v_total;
end
$$;

-- Take the words out of entries: who, what in detail, old and new values, request and address. When, which action, which
-- tenant and which job stay, and the hash, so the chain stays whole; and which entries were erased. Only sealed ones; gives how many. For the owner.
create function headway.erase_audit(p_ids bigint[], p_actor text default null) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_gone bigint[];
begin
  with gone as (
    update headway.audit a
       set actor = null, actor_name = null, detail = case a.action when 'audit.erased' then a.detail end, changes = null, request_id = null, address = null,
           erased_at = headway.now()
     where a.id = any (p_ids)
       and a.seal is not null
       and a.erased_at is null
    returning a.id
  )
  select array_agg(g.id order by g.id) into v_gone from gone g;
  if v_gone is null then
    return 0;
  end if;
  insert into headway.audit (at, actor, action, detail)
  values (headway.now(), p_actor, 'audit.erased', array_to_string(v_gone, ', '));
  return cardinality(v_gone);
end
$$;
