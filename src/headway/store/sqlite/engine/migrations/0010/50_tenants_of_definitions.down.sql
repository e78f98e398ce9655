drop index definitions_guarded;

alter table definitions
drop column tenants;
