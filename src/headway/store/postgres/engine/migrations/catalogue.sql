-- What migrations made, a line for each part: without what every installation of the functions makes again, the order of
-- columns, and the roles' own policies. With the same parts in two databases, the same functions work on both.
select replace(part, 'headway.', '') as part
  from (
    select concat_ws(' ', 'table', c.relname, c.relkind, c.relrowsecurity) as part
      from pg_class c
     where c.relnamespace = 'headway'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S')
    union all
    select concat_ws(' ', 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                     a.attidentity, a.attgenerated, l.collname, pg_get_expr(d.adbin, d.adrelid))
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
      left join pg_collation l on l.oid = a.attcollation
     where c.relnamespace = 'headway'::regnamespace and c.relkind in ('r', 'p')
    union all
    -- not null is a property of the column before PostgreSQL 18, and a constraint since
    select concat_ws(' ', 'constraint', c.relname, n.conname, pg_get_constraintdef(n.oid))
      from pg_class c
      join pg_constraint n on n.conrelid = c.oid and n.contype <> 'n'
     where c.relnamespace = 'headway'::regnamespace
    union all
    select concat_ws(' ', 'index', pg_get_indexdef(i.indexrelid))
      from pg_class c
      join pg_index i on i.indrelid = c.oid
     where c.relnamespace = 'headway'::regnamespace
    union all
    select concat_ws(' ', 'trigger', pg_get_triggerdef(t.oid), t.tgenabled)
      from pg_class c
      join pg_trigger t on t.tgrelid = c.oid and not t.tgisinternal
     where c.relnamespace = 'headway'::regnamespace
    union all
    select concat_ws(' ', 'policy', c.relname, p.polname, p.polcmd, p.polpermissive, pg_get_expr(p.polqual, p.polrelid),
                     pg_get_expr(p.polwithcheck, p.polrelid))
      from pg_class c
      join pg_policy p on p.polrelid = c.oid and p.polname <> 'worker_sees_all'
     where c.relnamespace = 'headway'::regnamespace
    union all
    -- those of triggers and policies, which stay when the others are reinstalled
    select concat_ws(' ', 'function', p.proname, p.prosecdef, p.proconfig::text, md5(p.prosrc))
      from pg_proc p
     where p.pronamespace = 'headway'::regnamespace
       and exists (select
                     from pg_depend d
                    where d.refclassid = 'pg_proc'::regclass and d.refobjid = p.oid
                      and d.classid in ('pg_trigger'::regclass, 'pg_policy'::regclass))
  ) made
 order by part collate "C";
