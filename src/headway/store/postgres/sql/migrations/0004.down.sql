-- Back to version 3, which knows no triggers: definitions, templates, triggers, fires and events are lost, jobs stay.

drop table headway.definitions, headway.templates, headway.triggers, headway.fires, headway.events;
alter table headway.jobs
  drop column template_id,
  drop column template_revision,
  drop column trigger_id,
  drop column log_end;
-- what a further step down ends is told to nobody any more
create or replace function headway.announce(p_ids uuid[], p_now timestamptz) returns void
language sql
as $$ select $$;
