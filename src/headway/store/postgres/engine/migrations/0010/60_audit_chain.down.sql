drop table headway.audit_seals;
drop index headway.audit_unsealed;
alter table headway.audit
  drop column actor_name,
  drop column changes,
  drop column seal,
  drop column hash,
  drop column erased_at;
