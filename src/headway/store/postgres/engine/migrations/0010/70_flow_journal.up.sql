-- locks: nothing
-- the finished operations of flows, in order: written under a fence, never changed, deleted with their job
create table headway.flow_journal (
  job_id uuid not null,
  tenant_id uuid not null,
  signal uuid, -- the one that this row consumed
  at timestamptz not null,
  print bigint, -- the fingerprint of the arguments
  seq integer not null, -- the order of delivery; of `settled` notes below 0
  fence integer not null, -- the execution that wrote it
  took_ms integer,
  kind text collate "C" not null,
  place text collate "C" not null, -- the operation: reserve, charge#2
  value json,
  error text,
  primary key (job_id, seq),
  constraint flow_journal_kind check (
    kind in ('done', 'failed', 'signal', 'ended', 'timer', 'cancel',
             'called', 'due', 'begun', 'tried', 'settled', 'cut', 'forgotten')
  )
) with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);

create trigger flow_journal_fixed
  before update on headway.flow_journal
  for each statement
  execute function headway.refuse_update();

alter table headway.flow_journal enable row level security;
create policy tenant_isolation on headway.flow_journal using (tenant_id = (select headway.tenant()));
