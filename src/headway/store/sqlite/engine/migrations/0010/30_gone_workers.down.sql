drop table gone_workers;
