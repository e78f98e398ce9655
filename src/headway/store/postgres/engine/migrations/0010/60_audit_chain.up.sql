-- locks: audit, for as long as an index of its rows takes
-- what changed, by whom in words, and the chain: a batch of entries is sealed once they are committed
alter table headway.audit
  add column actor_name text, -- of a key, its name; of a bound login, who it says it is
  add column changes text, -- JSON: the old and the new value of each field that changed, by its name
  add column seal bigint, -- the number in audit_seals; null: not sealed yet
  add column hash bytea, -- of the sealed entry; once it is erased, only this tells what it said
  add column erased_at timestamptz;
create index audit_unsealed on headway.audit (id) where seal is null;

create table headway.audit_seals (
  n bigint primary key,
  first_id bigint not null,
  last_id bigint not null,
  entries integer not null,
  newest_at timestamptz not null, -- when the last of its entries was written
  sealed_at timestamptz not null,
  hash bytea not null check (length(hash) = 32) -- of the seal before, and of the hashes of its entries
);
