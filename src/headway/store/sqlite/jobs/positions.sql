-- Differs because SQLite has no sequences: a counter row, advanced under the write lock.

-- name: next
update counters
set value = value + 1024 * ?1
where name = 'position'
returning value;
