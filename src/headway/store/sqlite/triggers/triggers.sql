-- Differs because a row is read, changed in Python under the write lock, and written as a whole.

-- name: page
select id
from triggers
where (?1 is null or tenant_id = ?1)
  and (?2 is null or type = ?2)
  and (?3 is null or name = ?3)
  and (?4 is null or event in (select value from json_each(?4)))
  and id > ?5
  and (?7 is null or id = ?7)
order by id
limit ?6;

-- name: read
-- as blobs: a text that is not UTF-8 would fail the whole read
select
  g.id, g.tenant_id, coalesce(t.slug, g.tenant_id), g.type, g.name, g.kind, g.template_id, m.kind,
  cast(g.payload as blob), cast(g.options as blob), g.description, g.enabled, g.origin, g.created_by, g.created_at, g.updated_at, g.declared_at, g.revision, g.cron,
  g.every_ms, g.tz, g.catch_up, g.catch_up_window_ms, g.overlap, g.jitter_ms, g.start_at, g.end_at, g.next_fire_at,
  g.event, cast(g."when" as blob), g.dedupe_window_ms, g.dedupe_key, g.signal, g.signal_to, g.last_fired_at, g.last_job_id, g.error, g.label
from triggers as g
left join tenants as t
  on t.id = g.tenant_id
left join templates as m
  on m.id = g.template_id
where g.id in (select value from json_each(?1))
order by g.id;

-- name: named
select id
from triggers
where tenant_id = ?1
  and type = ?2
  and name = ?3;

-- name: insert
insert into triggers (
  id, tenant_id, type, origin, created_by, created_at, updated_at, declared_at, name, kind, template_id, payload,
  options, description, enabled, cron, every_ms, tz, catch_up, catch_up_window_ms, overlap, jitter_ms, start_at,
  end_at, next_fire_at, event, "when", dedupe_window_ms, dedupe_key, signal, signal_to, label, revision
)
values (
  ?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11,
  ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
  ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, 1
);

-- name: changing
select
  tenant_id, type, origin, revision, name, kind, template_id, payload, options, description, enabled, cron, every_ms,
  tz, catch_up, catch_up_window_ms, overlap, jitter_ms, start_at, end_at, next_fire_at, event, "when",
  dedupe_window_ms, dedupe_key, signal, signal_to, label
from triggers
where id = ?1
  and (?2 is null or tenant_id = ?2);

-- name: change
update triggers
set updated_at = ?2,
  declared_at = coalesce(?3, declared_at),
  name = ?4,
  kind = ?5,
  template_id = ?6,
  payload = ?7,
  options = ?8,
  description = ?9,
  enabled = ?10,
  cron = ?11,
  every_ms = ?12,
  tz = ?13,
  catch_up = ?14,
  catch_up_window_ms = ?15,
  overlap = ?16,
  jitter_ms = ?17,
  start_at = ?18,
  end_at = ?19,
  next_fire_at = ?20,
  event = ?21,
  "when" = ?22,
  dedupe_window_ms = ?23,
  dedupe_key = ?24,
  signal = ?25,
  signal_to = ?26,
  label = ?27,
  error = null,
  revision = revision + 1
where id = ?1;

-- name: declared
update triggers
set declared_at = ?2
where id = ?1;

-- name: delete
delete from triggers
where id = ?1
  and (?2 is null or tenant_id = ?2)
returning tenant_id, type, name;

-- name: template
select id
from templates
where id = ?1
  and tenant_id = ?2;
