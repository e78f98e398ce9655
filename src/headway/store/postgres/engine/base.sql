-- What all chapters use: the clock, ids, names. Installed first.

-- The database's clock. One function, which tests replace to hold the time.
create function headway.now() returns timestamptz
language sql volatile
as $$ select pg_catalog.clock_timestamp() $$;

-- A new UUIDv7, for rows that the database makes.
create function headway.uuid7() returns uuid
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
              placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
              from 1 for 6),
      52, 1), 53, 1), 'hex')::uuid
$$;

-- A text as an id, if it is a UUID in lower case; else null.
create function headway.as_id(p_text text) returns uuid
language sql immutable
as $$ select case when p_text ~ '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$' then p_text::uuid end $$;

-- Whether a kind or a queue can have this name. No regular expression: every session would compile it again.
create function headway.is_name(p_name text) returns boolean
language sql immutable parallel safe
as $$
  select pg_catalog.length(p_name) between 1 and 128
     and pg_catalog.translate(p_name, 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/-', '') = ''
     and pg_catalog.strpos('.:/-', pg_catalog."left"(p_name, 1)) = 0
$$;

-- A JSON array of texts as an array; null if there is none.
create function headway.texts(p_list jsonb) returns text[]
language sql immutable strict
as $$ select pg_catalog.array_agg(t.text order by t.ordinal)
        from pg_catalog.jsonb_array_elements_text(p_list) with ordinality as t (text, ordinal) $$;

-- Whether a payload holds a reference to a secret, however its key is escaped. Searches the text: inside a string, the
-- quotes of such a key would follow backslashes.
create function headway.refers_to_secret(p_payload json) returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
  select (strpos(p_payload::text, '"$secret"') > 0 or strpos(p_payload::text, '\u00') > 0)
     and p_payload::text ~ ('(^|[^\\])"(\$|\\u0024)(s|\\u0073)(e|\\u0065)(c|\\u0063)(r|\\u0072)(e|\\u0065)(t|\\u0074)"\s*:')
$$;

-- How many rows one transaction handles where any number may follow from one job (dependents, members of a group,
-- cars); the rest is left as an arrival, so that others never wait for long.
create function headway.piece() returns integer
language sql immutable
as $$ select 500 $$;
