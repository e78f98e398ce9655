-- Rows that more than one function gives.

-- A claim, as model/job.py's Claim has it, in this order.
create type headway.claimed_job as (
  id uuid,
  tenant_id uuid,
  kind text,
  queue text,
  payload json,
  fence integer,
  tries integer,
  losses integer,
  max_attempts integer,
  max_losses integer,
  backoff_base_ms bigint,
  backoff_cap_ms bigint,
  timeout_ms bigint,
  delivery text,
  correlation_id text,
  trace_id text,
  meta json,
  followed boolean,
  checkpoint text,
  attempt integer
);
