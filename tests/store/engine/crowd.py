"""The rows among which costs are measured: finished, running, scheduled and queued jobs, the same on both stores."""

from __future__ import annotations

from headway.model.ids import DEFAULT_TENANT_ID
from tests import sizes_and_seeds

_TIMES = 10 if sizes_and_seeds.full else 1
FINISHED, QUEUED, SCHEDULED, RUNNING = 100_000 * _TIMES, 30_000 * _TIMES, 3_000 * _TIMES, 2_000
WORKERS = 20
GROUPS = FINISHED // 10_000

_JOBS = """
insert into {jobs} (
  id, tenant_id, kind, queue, status, priority, position, payload, fence, unique_key, unique_scope, scheduled_for,
  expires_at, created_at, queued_at, started_at, finished_at, worker_id, attempt_started_at)
"""


def job_id(n: int) -> str:
    text = f"0190{n:08x}70008000{n:012x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def worker_id(n: int) -> str:
    return f"01900000-0000-7000-9000-{n:012x}"


def group_id(n: int) -> str:
    return f"01900000-0000-7000-a000-{n:012x}"


class Crowd:
    """The rows of one store: finished, then running, scheduled and queued ones, by number."""

    running = range(FINISHED, FINISHED + RUNNING)
    scheduled = range(running.stop, running.stop + SCHEDULED)
    queued = range(scheduled.stop, scheduled.stop + QUEUED)
    due = 500  # of the scheduled
    expired = 200  # of the queued


_ID = "(lpad(to_hex({n}), 8, '0') || '70008000' || lpad(to_hex({n}), 12, '0'))"
_PG_ID = f"('0190' || {_ID.format(n='n')})::uuid"
_PG_WORKER = f"('01900000-0000-7000-9000-' || lpad(to_hex(n % {WORKERS}), 12, '0'))::uuid"
POSTGRES_ROWS = [
    # finished: one in ten dead, canceled or failed, over ninety days
    f"""{_JOBS.format(jobs="headway.jobs")}
    select {_PG_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'queue' || n % 5,
           case n % 30 when 1 then 'dead' when 2 then 'canceled' when 3 then 'failed' else 'succeeded' end,
           100, n::bigint * 1024, '{{}}', 1, case when n % 10 = 0 then 'key' || n end,
           case when n % 10 = 0 then '{{queued,scheduled,held,running,waiting}}'::text[] end, null, null,
           t, t, t, t, null, null
      from (select n, {{now}} - ({FINISHED} - n) * interval '8 seconds' as t
              from generate_series(0, {FINISHED - 1}) n) s""",
    f"""insert into headway.attempts (job_id, tenant_id, fence, status, started_at, finished_at, worker_id)
    select j.id, j.tenant_id, 1, 'succeeded', j.started_at, j.finished_at, '{worker_id(1)}' from headway.jobs j""",
    f"""{_JOBS.format(jobs="headway.jobs")}
    select {_PG_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'default', 'running', 100, n::bigint * 1024, '{{}}', 1,
           null, null, null, null, {{now}}, {{now}}, {{now}}, null, {_PG_WORKER}, {{now}}
      from generate_series({Crowd.running.start}, {Crowd.running.stop - 1}) n""",
    f"""{_JOBS.format(jobs="headway.jobs")}
    select {_PG_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'default', 'scheduled', 100, null, '{{}}', 0,
           null, null, {{now}} + (n - {Crowd.scheduled.start + Crowd.due}) * interval '1 minute', null, {{now}},
           null, null, null, null, null
      from generate_series({Crowd.scheduled.start}, {Crowd.scheduled.stop - 1}) n""",
    f"""{_JOBS.format(jobs="headway.jobs")}
    select {_PG_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, case when n % 3 = 0 then 'bulk' else 'default' end,
           'queued', 100 + n % 2, n::bigint * 1024, '{{}}', 0, 'key' || n,
           '{{queued,scheduled,held,running,waiting}}'::text[], null,
           case when n >= {Crowd.queued.stop - Crowd.expired} then {{now}} - interval '1 second'
                when n % 10 = 0 then {{now}} + interval '1 day' end,
           {{now}}, {{now}}, null, null, null, null
      from generate_series({Crowd.queued.start}, {Crowd.queued.stop - 1}) n""",
    f"""insert into headway.workers (id, started_at, heartbeat_at, steady_since, lease_expires_at, lease_ms, late_ms,
                                     pid, concurrency, hostname, version, queues, kinds)
    select ('01900000-0000-7000-9000-' || lpad(to_hex(n), 12, '0'))::uuid, {{now}}, {{now}}, {{now}},
           {{now}} + case n when 0 then -1 else 1 end * interval '1 hour', 60000, 60000, n, 100, 'host', '1',
           '{{"default": 100}}', '{{kind0}}'
      from generate_series(0, {WORKERS - 1}) n""",
    # finished: one in 25 has the tag common, one in a thousand rare, too
    f"""update headway.jobs j
       set tags = case when s.n % 1000 = 0 then '{{common,rare}}'::text[] else '{{common}}' end
      from generate_series(0, {FINISHED - 1}, 25) s (n)
     where j.id = ('0190' || {_ID.format(n="s.n")})::uuid""",
    """insert into headway.job_tags (tag, job_id, tenant_id)
    select t.tag, j.id, j.tenant_id from headway.jobs j cross join lateral unnest(j.tags) t (tag)""",
    # finished: a hundred in each of some groups, which are spread over all of them
    f"""update headway.jobs j
       set group_id = ('01900000-0000-7000-a000-' || lpad(to_hex(s.n / 100 % {GROUPS}), 12, '0'))::uuid
      from generate_series({FINISHED // 4 + 1}, {FINISHED - 1}, 100) s (n)
     where j.id = ('0190' || {_ID.format(n="s.n")})::uuid""",
    """insert into headway.job_errors (job_id, tenant_id, fence, fingerprint)
    select j.id, j.tenant_id, 1, '0123456789abcdef' from headway.jobs j where j.status in ('dead', 'failed')""",
    # running: ten rows of a journal each
    """insert into headway.flow_journal (job_id, tenant_id, at, seq, fence, kind, place, value)
    select j.id, j.tenant_id, j.created_at, n, 1, 'done', 'step', '1'
      from headway.jobs j cross join generate_series(1, 10) n where j.status = 'running'""",
    "select setval('headway.position', 4000000000)",
]


_SERIES = "with recursive s (n) as (select {start} union all select n + 1 from s where n < {stop} - 1)\n"
_LITE_ID = "printf('0190%04x-%04x-7000-8000-%012x', n >> 16, n & 65535, n)"
_LITE_WORKER = f"printf('01900000-0000-7000-9000-%012x', n % {WORKERS})"
_LITE_JOBS = """
insert into jobs (
  id, tenant_id, kind, queue, status, priority, position, payload, fence, unique_key, unique_scope, scheduled_for,
  expires_at, created_at, queued_at, started_at, finished_at, worker_id, attempt_started_at,
  max_attempts, max_losses, backoff_base_ms, backoff_cap_ms, delivery, source)
"""
_LITE_REST = "5, 5, 1000, 3600000, 'at_least_once', 'manual'"
_LITE_SCOPE = """'["queued","scheduled","held","running","waiting"]'"""
SQLITE_ROWS = [
    f"""{_SERIES.format(start=0, stop=FINISHED)} {_LITE_JOBS}
    select {_LITE_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'queue' || n % 5,
           case n % 30 when 1 then 'dead' when 2 then 'canceled' when 3 then 'failed' else 'succeeded' end,
           100, n * 1024, '{{}}', 1, case when n % 10 = 0 then 'key' || n end, {_LITE_SCOPE}, null, null, t, t, t, t,
           null, null, {_LITE_REST}
      from (select n, {{now}} - ({FINISHED} - n) * 8000000 as t from s)""",
    f"""insert into attempts (job_id, fence, status, started_at, finished_at, worker_id)
    select id, 1, 'succeeded', started_at, finished_at, '{worker_id(1)}' from jobs""",
    f"""{_SERIES.format(start=Crowd.running.start, stop=Crowd.running.stop)} {_LITE_JOBS}
    select {_LITE_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'default', 'running', 100, n * 1024, '{{}}', 1,
           null, {_LITE_SCOPE}, null, null, {{now}}, {{now}}, {{now}}, null, {_LITE_WORKER}, {{now}}, {_LITE_REST}
      from s""",
    f"""{_SERIES.format(start=Crowd.scheduled.start, stop=Crowd.scheduled.stop)} {_LITE_JOBS}
    select {_LITE_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, 'default', 'scheduled', 100, null, '{{}}', 0,
           null, {_LITE_SCOPE}, {{now}} + (n - {Crowd.scheduled.start + Crowd.due}) * 60000000, null, {{now}},
           null, null, null, null, null, {_LITE_REST}
      from s""",
    f"""{_SERIES.format(start=Crowd.queued.start, stop=Crowd.queued.stop)} {_LITE_JOBS}
    select {_LITE_ID}, '{DEFAULT_TENANT_ID}', 'kind' || n % 7, case when n % 3 = 0 then 'bulk' else 'default' end,
           'queued', 100 + n % 2, n * 1024, '{{}}', 0, 'key' || n, {_LITE_SCOPE}, null,
           case when n >= {Crowd.queued.stop - Crowd.expired} then {{now}} - 1000000
                when n % 10 = 0 then {{now}} + 86400000000 end,
           {{now}}, {{now}}, null, null, null, null, {_LITE_REST}
      from s""",
    f"""{_SERIES.format(start=0, stop=WORKERS)}
    insert into workers (id, hostname, pid, version, queues, kinds, concurrency, lease_ms, late_ms, started_at,
                         heartbeat_at, steady_since, lease_expires_at, metadata)
    select printf('01900000-0000-7000-9000-%012x', n), 'host', n, '1', '{{"default":100}}', '["kind0"]', 100, 60000,
           60000, {{now}}, {{now}}, {{now}}, {{now}} + case n when 0 then -1 else 1 end * 3600000000, '{{}}'
      from s""",
    f"""{_SERIES.format(start=0, stop=FINISHED // 25)}
    update jobs set tags = case when s.n = 0 then '["common","rare"]' else '["common"]' end
      from (select n % 1000 as n, {_LITE_ID} as id from (select n * 25 as n from s)) as s where jobs.id = s.id""",
    """insert into job_tags (tag, job_id, tenant_id)
    select tags.value, jobs.id, tenant_id from jobs join json_each(jobs.tags) as tags where jobs.tags is not null""",
    f"""{_SERIES.format(start=0, stop=FINISHED // 100)}
    update jobs set group_id = printf('01900000-0000-7000-a000-%012x', s.n / 100 % {GROUPS})
      from (select n, {_LITE_ID} as id from (select n * 100 + 1 as n from s where n >= {FINISHED // 400})) as s
     where jobs.id = s.id""",
    """insert into job_errors (job_id, tenant_id, fence, fingerprint)
    select id, tenant_id, 1, '0123456789abcdef' from jobs where status in ('dead', 'failed')""",
    f"""{_SERIES.format(start=1, stop=11)}
    insert into flow_journal (job_id, seq, fence, kind, place, value, at)
    select jobs.id, n, 1, 'done', 'step', '1', created_at from jobs cross join s where jobs.status = 'running'""",
    "update counters set value = 4000000000 where name = 'position'",
]
