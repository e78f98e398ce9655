"""`headway stats` and `headway overview`."""

from __future__ import annotations

from headway import Headway


def test_stats_are_listed_by_span_and_kind(cli, app: Headway) -> None:
    @app.job
    def fine() -> None: ...

    @app.job(max_attempts=1)
    def broken() -> None:
        raise ValueError

    for kind in (fine, fine, broken):
        kind.enqueue()
    assert "nothing happened" in cli("stats", "--queue", "other").stderr
    app.run(until_idle=True)
    (fine_stat, broken_stat) = sorted(
        cli.json("stats", "--by", "kind", "--every", "hour"), key=lambda each: -each["succeeded"]
    )
    assert (fine_stat["kind"], fine_stat["succeeded"], fine_stat["enqueued"]) == ("fine", 2, 2)
    assert (broken_stat["kind"], broken_stat["failed"], broken_stat["dead"]) == ("broken", 1, 1)
    assert fine_stat["run_p50_ms"] >= 0
    assert fine_stat["wait_p95_ms"] >= 0
    shown = cli.ok("stats", "--every", "day", "--since", "1h", "--by", "tenant", "--by", "queue", "--by", "kind")
    header, *lines = shown.splitlines()
    assert header.split()[:6] == ["TIME", "TENANT", "QUEUE", "KIND", "ENQUEUED", "SUCCEEDED"]
    assert "█" in shown
    assert {line.split()[3] for line in lines} == {"fine", "broken"}
    assert cli.json("stats", "--tenant", "default")[0]["at"].endswith("Z")
    assert "3,000" in cli.refused("stats", "--since", "30d", code=2)


def test_an_overview_says_what_needs_a_person(cli, app: Headway) -> None:
    assert cli.ok("overview", "--since", "2h").startswith("Nothing needs you.")
    app.enqueue("mail", queue="nobody")
    app.tenant("acme").enqueue("mail", queue="nobody")
    shown = cli.ok("overview", "--tenants")
    assert shown.startswith("no worker listens to queue nobody, and 2 jobs wait in it\n  headway worker ")
    assert "2 enqueued, 0 succeeded" in shown
    assert "acme: 0 queued" in shown
    found = cli.json("overview", "--tenant", "acme")
    assert [each["why"] for each in found["problems"]] == ["no worker listens to queue nobody, and 1 job waits in it"]
    assert {each["tenant"] for each in cli.json("overview", "--tenants")["tenants"]} == {"acme", "default"}
