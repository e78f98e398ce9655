drop policy tenant_isolation on headway.definitions;
drop policy if exists worker_sees_all on headway.definitions;
alter table headway.definitions disable row level security;
drop index headway.definitions_guarded;
alter table headway.definitions drop column tenants;
