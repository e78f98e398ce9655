-- Tags: the words by which people find a job again.

-- The tags in order of the alphabet, each once, as model/tags.py has them; null if there are none. Raises HW004.
create function headway.checked_tags(p_tags text[]) returns text[]
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_tags text[] := array(select distinct t.tag collate "C" from unnest(p_tags) as t (tag) order by 1);
  v_wrong text;
begin
  select coalesce(quote_literal(t.tag), 'null')
    into v_wrong
    from unnest(v_tags) as t (tag)
   where (t.tag ~ '^[A-Za-z0-9_][A-Za-z0-9._:/@=+-]{0,63}$') is not true
   limit 1;
  if found then
    raise exception 'tags has %, which is not a tag: use 1 to 64 letters, digits, ''.'', ''_'', ''-'', '':'', ''/'', ''@'', ''='' and ''+'', starting with a letter, a digit or ''_''',
      v_wrong
      using errcode = 'HW004';
  end if;
  if cardinality(v_tags) > 20 then
    raise exception 'tags are %, with those of the kind: a job may have 20', cardinality(v_tags) using errcode = 'HW004';
  end if;
  return nullif(v_tags, '{}');
end
$$;

-- Make those of these jobs that have tags findable by them.
create function headway.index_tags(p_ids uuid[]) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  insert into headway.job_tags (tag, job_id, tenant_id)
  select t.tag, j.id, j.tenant_id
    from headway.jobs j
    cross join lateral unnest(j.tags) as t (tag)
   where j.id = any (p_ids)
     and j.tags is not null
  on conflict do nothing
$$;
