alter table headway.jobs drop column log_said;
