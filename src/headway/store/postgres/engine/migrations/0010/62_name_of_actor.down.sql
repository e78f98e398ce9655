alter table headway.audit alter column actor_name drop default;
