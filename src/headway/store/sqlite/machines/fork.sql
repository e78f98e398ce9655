-- name: began
-- where a fork begins, with the state as text, unchanged
update jobs
set began = '{"version":' || coalesce(version, 'null') || coalesce(',"state":' || state, '')
  || ',"joining":' || coalesce(joining, 'null') || coalesce(',"joined":"' || ?2 || '"', '') || '}'
where id = ?1;

-- name: mark
update jobs
set signaled = 1
where id = ?1
  and step is null;
