"""`headway errors`, and jobs by their error."""

from __future__ import annotations

from headway import Headway


def test_errors_are_listed_shown_and_their_jobs_retried(cli, either: Headway) -> None:
    app = either
    mended = False

    @app.job(max_attempts=1)
    def broken(user: int) -> None:
        if not mended:
            raise LookupError(f"no user {user}")

    @app.job(max_attempts=1)
    def odd() -> None:
        raise ValueError("\x1b[31mred\x00")

    assert "no such errors" in cli("errors").stderr
    jobs = [broken.enqueue(user=n) for n in range(3)]
    odd.enqueue()
    app.run(until_idle=True)
    first, second = cli.json("errors", "list", "--order", "count")
    assert (first["kind"], first["count"], first["dead"], first["type"]) == ("broken", 3, 3, "LookupError")
    assert first["place"].endswith("test_cli_errors.py in broken")
    assert "\\x00" in second["message"]
    shown = cli.ok("errors")
    assert "\x1b" not in shown
    assert first["fingerprint"] in shown
    page = cli("errors", "list", "--order", "count", "--limit", "1")
    assert "headway errors list --order count --limit 1 --offset 1" in " ".join(page.stderr.split())
    assert cli.json("errors", "list", "--order", "count", "--limit", "1", "--offset", "1") == [second]
    assert cli.json("errors", "list", "--kind", "odd", "--since", "1h") == [second]
    assert cli.json("errors", "list", "--status", "lost") == []
    assert cli.json("errors", "list", "--tenant", "acme") == []
    name = first["fingerprint"]
    shown = cli.ok("errors", "show", name)
    assert "3 × since" in shown
    assert "Traceback" in shown
    assert cli.json("errors", "show", name)["sample"].startswith("LookupError: no user ")
    assert "no error 0000000000000000" in cli.refused("errors", "show", 16 * "0", code=1)
    for command in (["errors", "show"], *(["jobs", verb, "--error"] for verb in ("list", "retry", "cancel", "delete"))):
        flags = [] if command[-1] == "show" or "list" in command else ["--yes"]
        assert "16 hexadecimal digits" in cli.refused(*command, "nonsense", *flags, code=2), command
    assert len(cli.json("jobs", "list", "--error", name)) == 3
    mended = True
    cli.ok("jobs", "retry", "--error", name, "--yes")
    app.run(until_idle=True)
    assert [app.get(job.id).status for job in jobs] == ["succeeded"] * 3
    assert cli.json("jobs", "list", "--error", name) == []
    assert app.errors(job=jobs[0].id)[0].count == 3
