-- name: copy
-- the rows of these numbers; those of the other list get other values, and have not failed then
insert into flow_journal (job_id, seq, fence, kind, place, value, error, print, at, took_ms)
select
  ?1, f.seq, 0, case when given.value is not null and f.kind = 'failed' then 'done' else f.kind end, f.place,
  case when given.value is not null then given.value ->> 1 else f.value end,
  case when given.value is null then f.error end,
  f.print, f.at, f.took_ms
from flow_journal as f
left join json_each(?5) as given
  on given.value ->> 0 = f.seq
where f.job_id = ?2
  and f.seq in (select value from json_each(?4))
  and exists (
    select 1
    from jobs
    where jobs.id = ?2
      and jobs.tenant_id = ?3
  );

-- name: began
update jobs
set began = '{"version":' || coalesce(version, 'null') || coalesce(',"state":' || state, '') || '}'
where id = ?1;
