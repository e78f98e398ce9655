drop table headway.schema_steps;
