alter table jobs drop column log_said;
