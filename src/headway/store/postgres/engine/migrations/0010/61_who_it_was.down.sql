drop trigger audit_actor on headway.audit;
drop function headway.audit_actor();
alter table headway.install drop column retention;
