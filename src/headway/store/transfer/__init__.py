"""Moves the work of one database into another: a SQLite file into PostgreSQL, and back.

Where workers may go on until the last second, and the process that moves may be killed at any instruction, the question
is always which of the two databases may run a job. The answer is a row and some triggers in each:

| stage | source | target | who may run jobs |
|---|---|---|---|
| copy | open | refuses writes | the source |
| drain | open, its queues paused | refuses writes | the source ends what runs |
| seal | refuses writes | refuses writes | nobody |
| copy again, check | refuses writes | refuses writes | nobody |
| switch | refuses writes | open | the target |

1. **Prepare.** The target must be empty. One transaction there notes the transfer and seals it.
2. **Copy**, from one snapshot, while everything goes on. A copy is a comparison (`sync.py`): rows of both sides are
   read in order of their keys; what differs is deleted from the target, what is missing is inserted. So there is
   nothing to remember between two runs: after a crash it is run again, and what is there already is only read.
3. **Drain.** The queues of the source are paused, and what runs is awaited. Enqueues, signals and events go on.
4. **Seal.** One transaction waits for everybody who writes, looks that nothing runs, and makes triggers that refuse
   every later write: `StoreMoved`. A database that is not being moved has no such triggers, and pays nothing.
5. **Copy again** what changed, and **check**: both sides are read once more, table by table, and their counts and
   digests compared.
6. **Switch.** One transaction of the target sets its counters and drops its triggers. From that commit on, and not
   before, jobs run there.

Between 4 and 6 nobody can run anything, so nothing runs twice, however late the process dies; it is enough to start it
again. `abort` goes back as long as 6 has not happened: it marks the target first, then opens the source.

`tables.py` says which tables and rows are moved. The columns are read from both catalogues, and each must exist on both
sides or be named as an exception: a new column is moved without a line here, and one that cannot be is refused.
Arrivals, and numbers that are not added up, are not moved: after the seal the transfer does that at the source. Workers
are not moved, for nothing runs.
"""
