alter table queues drop column unfair;
