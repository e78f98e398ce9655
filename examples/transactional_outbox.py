"""An order and the job that handles it, in one transaction: both exist, or neither does.

The shop keeps its orders in the same SQLite file as Headway's jobs, through Python's sqlite3 module, so the app's URL
begins with sqlite+stdlib. Run it with: python examples/transactional_outbox.py [file]
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import headway
from headway import Headway

FILE = Path(sys.argv[1] if len(sys.argv) > 1 else "shop.db").resolve()
app = Headway(f"sqlite+stdlib:///{FILE}")


@app.job
def send_receipt(order: int) -> str:
    return f"receipt for order {order} sent"


def place_order(conn: sqlite3.Connection, total: int) -> int:
    """Insert the order and its job; the caller commits."""
    order = conn.execute("insert into orders (total) values (?)", (total,)).lastrowid
    assert order is not None
    send_receipt.using(conn=conn).enqueue(order=order)
    return order


def main() -> None:
    conn = sqlite3.connect(FILE, timeout=10)
    conn.execute("pragma journal_mode = wal")
    conn.execute("create table if not exists orders (id integer primary key, total integer not null)")
    headway.migrate(conn)  # creates Headway's tables along with the shop's own
    conn.commit()

    with conn:  # commits
        kept = place_order(conn, 1200)
    try:
        with conn:  # rolls back
            place_order(conn, 800)
            raise RuntimeError("the card was declined")
    except RuntimeError as error:
        print("rolled back:", error)

    print("orders:", conn.execute("select count(*) from orders").fetchone()[0])
    print("jobs:", sum(app.counts().values()))
    app.run(until_idle=True)
    (job,) = app.jobs(kind="send_receipt")
    print(f"order {kept}:", app.result(job.id).value)
    conn.close()
    app.close()


if __name__ == "__main__":
    main()
