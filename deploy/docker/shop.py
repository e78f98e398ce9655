"""Your application, in place of which this stands in the image."""

from __future__ import annotations

from headway import Headway

app = Headway()


@app.job(queue="mail", max_attempts=3, timeout="10s")
async def welcome(user_id: int) -> str:
    return f"hello {user_id}"
