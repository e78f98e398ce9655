-- locks: nothing
-- ids of workers that are gone, for a day: an id is never another's
create table gone_workers (
  id text primary key,
  owner text not null, -- the key over HTTP that it belonged to, and that key's tenant
  has_left integer not null, -- it signed off; else it was declared dead, and may come back
  gone_at integer not null
) strict, without rowid;

create index gone_workers_old on gone_workers (gone_at);
