drop table audit_seals;
drop index audit_unsealed;
alter table audit drop column actor_name;
alter table audit drop column changes;
alter table audit drop column seal;
alter table audit drop column hash;
alter table audit drop column erased_at;
