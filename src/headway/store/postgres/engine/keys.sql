-- The keys of limits, of advisory locks, and of the gates that limits lock.

-- The key of an advisory lock. It depends on a secret of this database: any login may take any advisory lock, so a key
-- that others can compute would let them stop claims and schedules. In plpgsql, which keeps its plan: every claim calls
-- this. Locks in use: queue …, limits, limit …, train … and line … (one move at a time), quota …, tenant … (its row is being
-- added), fire (schedules), declare, stats.
create function headway.lock_key(p_what text) returns bigint
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  return (select hashtextextended(p_what, i.secret) from headway.install i);
end
$$;

-- The lock that claims from a queue share, and that pause and reserve take alone.
create function headway.queue_lock(p_queue text) returns bigint
language sql stable
as $$ select headway.lock_key('queue ' || p_queue) $$;

-- The lock that claims share and a change of limits takes alone.
create function headway.limits_lock() returns bigint
language sql stable
as $$ select headway.lock_key('limits') $$;

-- The lock that a change of one limit takes alone, too. A claim that finds the one above taken shares these instead:
-- those of the queue, the kinds and the tenants of the jobs that it starts.
create function headway.limit_lock(p_scope text, p_name text) returns bigint
language sql stable
as $$ select headway.lock_key('limit ' || p_scope || ' ' || p_name) $$;

-- The lock of what operators set for "queue mail", "kind report" or "tenant <id>", whether there is a row yet or not. Taken
-- before any other; claims do not know it.
create function headway.setting_lock(p_setting text) returns bigint
language sql stable
as $$ select headway.lock_key('setting ' || p_setting) $$;

-- The gate of a limit's key: a row that is locked before the key is decided. 1,024 of them, so that two keys rarely
-- share one; the table headway.gates has a row for each.
create function headway.gate(p_key text) returns smallint
language sql immutable
as $$ select (1 + (pg_catalog.hashtext(p_key) & 1023))::smallint $$;

-- The gate of a queue that has a limit; 64 are enough for queues, which are fewer than keys.
create function headway.queue_gate(p_queue text) returns smallint
language sql immutable
as $$ select (1025 + (pg_catalog.hashtext(p_queue) & 63))::smallint $$;

-- The keys of limits, as model/limit.py writes them; null if one of the parts is null. Neither a tenant's id nor a kind
-- contains |, so two keys are equal only if all their parts are.
create function headway.partition_key(p_tenant uuid, p_partition text) returns text
language sql immutable
as $$ select 'p:' || p_tenant || '|' || p_partition $$;

create function headway.concurrency_key(p_tenant uuid, p_kind text, p_key text) returns text
language sql immutable
as $$ select 'c:' || p_tenant || '|' || p_kind || '|' || p_key $$;

create function headway.kind_key(p_kind text) returns text
language sql immutable
as $$ select 'k:' || p_kind $$;

create function headway.tenant_key(p_tenant uuid) returns text
language sql immutable
as $$ select 't:' || p_tenant $$;

-- Without p_key: the rate of the kind itself, which all tenants share.
create function headway.rate_key(p_tenant uuid, p_kind text, p_key text) returns text
language sql immutable
as $$ select 'r:' || case when p_key is null then p_kind else p_tenant || '|' || p_kind || '|' || p_key end $$;

-- The keys that can limit a job.
create function headway.limit_keys(p_job headway.jobs) returns text[]
language sql immutable
as $$
  select pg_catalog.array_remove(array[
    headway.partition_key(p_job.tenant_id, p_job.partition),
    headway.concurrency_key(p_job.tenant_id, p_job.kind, p_job.concurrency_key),
    headway.kind_key(p_job.kind),
    headway.tenant_key(p_job.tenant_id),
    headway.rate_key(p_job.tenant_id, p_job.kind, p_job.rate_key)
  ], null)
$$;

-- Of these, the keys under which a running job counts.
create function headway.taken_keys(p_job headway.jobs) returns text[]
language sql immutable
as $$
  select pg_catalog.array_remove(array[
    headway.partition_key(p_job.tenant_id, p_job.partition),
    headway.concurrency_key(p_job.tenant_id, p_job.kind, p_job.concurrency_key),
    case when p_job.limited then headway.kind_key(p_job.kind) end,
    case when p_job.limited then headway.tenant_key(p_job.tenant_id) end
  ], null)
$$;
