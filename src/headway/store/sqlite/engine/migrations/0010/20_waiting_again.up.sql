-- locks: jobs, for a moment
-- A machine that was canceled while it waited or slept does so again when it is retried: as a car, when its turn comes.

drop trigger jobs_moves;

-- cars that were retried before this, and whose turn has come since: no worker may run them before they are woken
update jobs
set status = 'waiting',
  limited_by = null,
  pending = joining is not null
where status = 'queued'
  and woken is null
  and coalesce(awaiting, joining) is not null;

-- The moves of model/status.py; a test compares the two lists. The two moves that every job makes are checked first.
create trigger jobs_moves
after update of status on jobs
when old.status <> new.status
  and (old.status <> 'queued' or new.status <> 'running')
  and (old.status <> 'running' or new.status <> 'succeeded')
  and instr('
    ;scheduled>queued;
    ;queued>scheduled;
    ;held>queued;
    ;held>scheduled;
    ;queued>running;
    ;running>succeeded;
    ;running>scheduled;
    ;running>queued;
    ;running>waiting;
    ;waiting>queued;
    ;running>dead;
    ;running>failed;
    ;queued>canceled;
    ;scheduled>canceled;
    ;held>canceled;
    ;waiting>canceled;
    ;running>canceled;
    ;dead>queued;
    ;failed>queued;
    ;canceled>queued;
    ;succeeded>queued;
    ;dead>held;
    ;failed>held;
    ;canceled>held;
    ;succeeded>held;
    ;canceled>waiting;
    ;held>waiting;
    ;canceled>scheduled;
  ', ';' || old.status || '>' || new.status || ';') = 0
begin
  select raise(abort, 'a job cannot make this move: model/status.py lists the moves that exist');
end;
