-- locks: audit, for a moment
-- the name of the API key that made a change over HTTP: the server sets it for its transaction
alter table headway.audit alter column actor_name set default nullif(current_setting('headway.actor_name', true), '');
