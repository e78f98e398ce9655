"""A first job: define it, enqueue it, run it, look at the result.

Run it with: python examples/first_job.py [database URL]
"""

from __future__ import annotations

import sys

from headway import Headway

app = Headway(sys.argv[1] if len(sys.argv) > 1 else None)


@app.job(max_attempts=3, timeout="10s")
async def greet(name: str) -> str:
    return f"hello, {name}"


def main() -> None:
    jobs = [greet.enqueue(name=name) for name in ("Ada", "Grace", "Edsger")]
    print("enqueued:", ", ".join(job.status for job in jobs))
    app.run(until_idle=True)  # runs a worker in this process until nothing is left to do
    for job in jobs:
        print(app.result(job.id).value)
    app.close()


if __name__ == "__main__":
    main()
