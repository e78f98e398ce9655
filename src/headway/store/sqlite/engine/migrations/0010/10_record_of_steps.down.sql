drop table schema_steps;
