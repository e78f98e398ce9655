-- Differs because children that are left are canceled in the same transaction.

-- name: children
with recursive heir (asked, id, n) as (
  select value, value, 1
  from json_each(?1)
  union all
  select heir.asked, jobs.id, heir.n + 1
  from heir
  join jobs
    on jobs.retry_of = heir.id
)
select heir.asked, {machines/children.child}
from heir
join jobs
  on jobs.id = heir.id
order by heir.asked, heir.n;

-- name: leave
-- these children, or the jobs that retry them
update edges
set state = 'left'
where child_id = ?1
  and fence = -1
  and state = 'pending'
  and parent_id in (
    with recursive heir (id) as (
      select value
      from json_each(?2)
      union
      select jobs.id
      from heir
      join jobs
        on jobs.retry_of = heir.id
    )
    select id
    from heir
  )
  and (?3 is null or exists (select 1 from jobs where jobs.id = ?1 and jobs.fence = ?3 and jobs.status = 'running'))
returning parent_id;
