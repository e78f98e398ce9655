-- Back to version 3, which knows no work that starts itself: definitions, templates, triggers, their fires and events
-- are gone; the jobs that were made stay.

drop table events;

drop table fires;

drop table triggers;

drop table templates;

drop table definitions;

alter table jobs drop column log_end;

alter table jobs drop column trigger_id;

alter table jobs drop column template_revision;

alter table jobs drop column template_id;
