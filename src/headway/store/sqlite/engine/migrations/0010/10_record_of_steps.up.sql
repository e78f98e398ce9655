-- locks: nothing
-- the steps of versions above 1 that were done; a migration that was ended halfway goes on with the others
create table schema_steps (
  version integer not null,
  name text not null,
  needs integer not null, -- the oldest version whose libraries work on the schema after it
  done_at integer not null default (unixepoch() * 1000000),
  primary key (version, name)
) strict, without rowid;
