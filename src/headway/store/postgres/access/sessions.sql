-- Sessions of browsers. Nobody may read the table: these functions are the only way to it, for the owner.

create function headway.create_session(
  p_secret_hash bytea, p_key_id text, p_expires_at timestamptz, p_valid_until timestamptz) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  insert into headway.sessions (secret_hash, key_id, created_at, expires_at, valid_until)
  values (p_secret_hash, p_key_id, headway.now(), p_expires_at, p_valid_until)
  on conflict (secret_hash) do nothing
$$;

-- A session by the hash of its secret, if it is still valid.
create function headway.find_session(p_secret_hash bytea)
returns table (key_id text, created_at timestamptz, expires_at timestamptz, valid_until timestamptz)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.key_id, s.created_at, s.expires_at, s.valid_until
    from headway.sessions s
   where s.secret_hash = p_secret_hash
     and s.valid_until > headway.now()
$$;

-- Extend sessions that were used.
create function headway.extend_sessions(p_secret_hashes bytea[], p_valid_until timestamptz[]) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  update headway.sessions s
     set valid_until = least(s.expires_at, u.valid_until)
    from unnest(p_secret_hashes, p_valid_until) as u (secret_hash, valid_until)
   where s.secret_hash = u.secret_hash
     and s.valid_until < least(s.expires_at, u.valid_until)
$$;

create function headway.delete_session(p_secret_hash bytea) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  delete from headway.sessions s where s.secret_hash = p_secret_hash
$$;

-- Forget sessions that are over; gives how many.
create function headway.prune_sessions(p_limit integer) returns bigint
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
  with gone as (
    delete from headway.sessions s
     where s.secret_hash in (
             select o.secret_hash
               from headway.sessions o
              where o.valid_until <= headway.now()
              order by o.valid_until
              limit p_limit
                for update skip locked)
    returning 1
  )
  select count(*) from gone
$$;
