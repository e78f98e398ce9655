-- name: began
-- where a fork begins; the state stays as it was written
update jobs
set began = '{"version":' || coalesce(version, 'null') || coalesce(',"state":' || state, '')
  || ',"joining":' || coalesce(joining, 'null') || coalesce(',"joined":"' || ?2 || '"', '') || '}'
where id = ?1;

-- name: mark
update jobs
set signaled = 1
where id = ?1
  and step is null;
