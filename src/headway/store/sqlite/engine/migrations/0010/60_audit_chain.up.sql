-- locks: audit, for as long as an index of its rows takes
-- what changed (JSON: the old and the new value of each field, by its name), by whom in words, and the chain: a batch of
-- entries is sealed once they are committed. seal: the number in audit_seals, null: not sealed yet; hash: of the sealed
-- entry; once it is erased, only this tells what it said
alter table audit add column actor_name text;
alter table audit add column changes text;
alter table audit add column seal integer;
alter table audit add column hash blob;
alter table audit add column erased_at integer;
create index audit_unsealed on audit (id) where seal is null;

create table audit_seals (
  n integer primary key,
  first_id integer not null,
  last_id integer not null,
  entries integer not null,
  newest_at integer not null, -- when the last of its entries was written
  sealed_at integer not null,
  hash blob not null check (length(hash) = 32) -- of the seal before, and of the hashes of its entries
) strict;
