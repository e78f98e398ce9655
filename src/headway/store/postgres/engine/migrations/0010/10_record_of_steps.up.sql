-- locks: nothing
-- the steps of versions above 1 that were done; a migration that was ended halfway goes on with the others
create table headway.schema_steps (
  version integer not null,
  name text collate "C" not null,
  needs integer not null, -- the oldest version whose libraries work on the schema after it
  done_at timestamptz not null default clock_timestamp(),
  primary key (version, name)
);
