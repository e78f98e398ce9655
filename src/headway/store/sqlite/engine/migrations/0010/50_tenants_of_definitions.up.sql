-- locks: definitions, for a moment
-- the tenants whose jobs may be of the kind, a JSON list of names and ids; null: all
alter table definitions
add column tenants text;

-- every enqueue asks whether there are any
create index definitions_guarded
on definitions (kind)
where active = 0
  or tenants is not null;
