"""`headway artifacts`: list and download the files that jobs stored."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from headway.cli.program.click_classes import Group
from headway.cli.program.failure import Refused
from headway.cli.program.invocation import Invocation, pass_invocation
from headway.cli.program.options import MOST
from headway.cli.program.output import Cell, Column, ago, emit, merged, note, say, table
from headway.cli.program.params import Tenant

if TYPE_CHECKING:
    from headway.app.verbs import Verbs
    from headway.model.artifact import Artifact


@click.group(cls=Group, invoke_without_command=True, short_help="List and download files that jobs stored.")
@click.pass_context
def artifacts(ctx: click.Context) -> None:
    """List and download the files that jobs stored (ctx.artifact).

    \b
    headway artifacts list --job 0198c2d4-7b1e-7c3a-9f00-000000000001
    headway artifacts get 0198c2d4-9a55-7d20-8e11-000000000002
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@artifacts.command("list")
@click.option("--job", "job_id", metavar="ID", help="Only those of this job.")
@click.option("--tenant", type=Tenant(), help="Only those of this tenant.")
@click.option("--limit", type=click.IntRange(1, MOST), default=50, show_default=True, help="How many at most.")
@click.option("--before", metavar="ID", help="Continue after the page that ended with this one.")
@pass_invocation
def list_(
    cli: Invocation, job_id: str | None = None, tenant: Any = None, limit: int = 50, before: str | None = None
) -> None:
    """List artifacts, newest first.

    \b
    headway artifacts list --job 0198c2d4-7b1e-7c3a-9f00-000000000001
    headway artifacts list --tenant acme --json | jq -r '.[].name'
    """
    found = _of(cli, tenant).artifacts(job_id, limit=limit, before=before)
    if cli.json:
        emit(found)
    elif not found:
        note("no artifacts" + (" before that" if before else ""))
    else:
        table(_COLUMNS, [_row(each) for each in found])
        if len(found) == limit:
            flags = {"--job": job_id, "--tenant": None if tenant is None else str(tenant), "--limit": str(limit)}
            given = [part for flag, value in flags.items() if value is not None for part in (flag, value)]
            note(f"next page: {cli.typed('artifacts', 'list', *given, '--before', found[-1].id)}")


@artifacts.command()
@click.argument("artifact_id", metavar="ID")
@click.option("--to", default=".", metavar="PATH", help="A file or a folder; - is standard output.  [default: .]")
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
@click.option("--tenant", type=Tenant(), help="Only if it is this tenant's.")
@pass_invocation
def get(cli: Invocation, artifact_id: str, to: str, force: bool, tenant: Any) -> None:
    """Download an artifact. The file is there once it is whole and its hash is right.

    \b
    headway artifacts get 0198c2d4-9a55-7d20-8e11-000000000002 --to reports/
    headway artifacts get 0198c2d4-9a55-7d20-8e11-000000000002 --to - | head
    """
    verbs = _of(cli, tenant)
    if to == "-":
        with verbs.open_artifact(artifact_id) as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        return
    found = verbs.artifact(artifact_id)
    try:
        path = verbs.download_artifact(artifact_id, to, overwrite=force)
    except FileExistsError as error:
        raise Refused(f"{error.filename} is there already: --force overwrites it, --to names another place") from None
    except OSError as error:
        raise Refused(f"{to} cannot be written: {error.strerror}") from None
    if cli.json:
        emit(merged(found, file=str(path)))
    else:
        say(f"{path}  {found.size:,} bytes")


_COLUMNS = (
    Column("ID"),
    Column("NAME", shrink=True),
    Column("TYPE", shrink=True, wide=110),
    Column("BYTES", right=True),
    Column("STORED", right=True),
    Column("ATTEMPT", right=True, wide=120),
    Column("JOB", wide=140),
)


def _row(found: Artifact) -> list[Cell]:
    return [
        found.id,
        found.name,
        found.content_type,
        f"{found.size:,}",
        ago(found.created_at),
        str(found.fence),
        found.job_id,
    ]


def _of(cli: Invocation, tenant: Any) -> Verbs:
    return cli.existing if tenant is None else cli.existing.tenant(tenant)
