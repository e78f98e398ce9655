-- locks: nothing
-- the finished operations of flows, in order: written under a fence, never changed, deleted with their job
create table flow_journal (
  job_id text not null,
  seq integer not null, -- the order of delivery; of settled notes below 0
  fence integer not null, -- the execution that wrote it
  kind text not null check (instr(
    ';done;failed;signal;ended;timer;cancel;called;due;begun;tried;settled;cut;forgotten;', ';' || kind || ';'
  ) > 0),
  place text not null, -- the operation: reserve, charge#2
  value text,
  error text,
  print integer, -- the fingerprint of the arguments
  at integer not null,
  took_ms integer,
  signal text, -- the one that this row consumed
  primary key (job_id, seq)
) strict, without rowid;

create trigger flow_journal_fixed
before update on flow_journal
begin
  select raise(abort, 'flow_journal is never changed: what happened stays written as it is');
end;
