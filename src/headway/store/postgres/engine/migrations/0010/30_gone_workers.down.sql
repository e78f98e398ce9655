drop table headway.gone_workers;
