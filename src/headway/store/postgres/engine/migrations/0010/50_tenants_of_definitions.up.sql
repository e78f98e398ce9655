-- locks: definitions, for a moment
-- the tenants whose jobs may be of the kind, by name or id; null: all
alter table headway.definitions add column tenants text[] collate "C";
-- usually empty: every enqueue probes it
create index definitions_guarded on headway.definitions (kind) where not active or tenants is not null;
alter table headway.definitions enable row level security;
create policy tenant_isolation on headway.definitions
  using (
    tenants is null
    or (select headway.tenant())::text = any (tenants)
    or exists (select from headway.tenants t where t.id = (select headway.tenant()) and t.slug = any (tenants)));
