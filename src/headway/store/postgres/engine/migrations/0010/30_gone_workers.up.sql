-- locks: nothing
-- ids of workers that are gone, for a day: an id is never another's
create table headway.gone_workers (
  id uuid primary key,
  owner text not null, -- owner_of: the key over HTTP that it belonged to, and that key's tenant
  has_left boolean not null, -- it signed off; else it was declared dead, and may come back
  gone_at timestamptz not null
);
create index gone_workers_old on headway.gone_workers (gone_at);
