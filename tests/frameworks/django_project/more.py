"""A kind of the project's own, beside Django's tasks."""

from django.db import connections

from headway.contrib.django import app


@app.job(queue="mail")
def count_jobs() -> int:
    with connections["work"].cursor() as cursor:
        cursor.execute(f"select count(*) from {'headway.jobs' if app.url.startswith('postgres') else 'headway_jobs'}")
        return int(cursor.fetchone()[0])
