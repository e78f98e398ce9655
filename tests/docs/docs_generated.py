"""The parts of the reference that are written by the code itself: the command line's help, the signatures of functions.

To write them anew: python -m tests.docs.docs_generated
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import click
import psycopg

from tests.docs.docs_pages import ROOT

SQL_PAGE = ROOT / "docs" / "reference" / "sql.md"
HTTP_PAGE = ROOT / "docs" / "reference" / "http.md"
METRICS_PAGE = ROOT / "docs" / "reference" / "metrics.md"
CLI_PAGE = ROOT / "docs" / "reference" / "cli.md"
_BEGIN, _END = "<!-- generated -->", "<!-- /generated -->"
_WIDTH = 100


def cli_help() -> str:
    """The help of every command, as the page has it between its two markers."""
    from headway.cli.root import main

    parts = []
    for path, command in _commands(main, "headway", None):
        parts.append(f"{'###' if ' ' in path else '##'} {path}\n\n```help\n{command}\n```")
    return "\n\n".join(parts)


def with_cli_help(page: str) -> str:
    """The page with the help as it is now."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{cli_help()}\n\n{_END}{after}"


def _commands(command: click.Command, path: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    # as its make_context does
    settings = {"terminal_width": _WIDTH, "max_content_width": _WIDTH, **command.context_settings}
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, **settings)
    yield path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield from _commands(found, f"{path} {name}", context)


def http_reference() -> str:
    """Every endpoint of the HTTP API, as the page has them between its two markers."""
    from headway.api.chapters import ROUTES
    from headway.api.document.openapi import document
    from headway.api.document.reference import operations

    parts = []
    for chapter, listed in operations(document(ROUTES)).items():
        parts.append(f"## {chapter.capitalize()}")
        for each in listed:
            rows = [f"| `{name}` | {where} | {kind} |" for name, where, kind, _ in each.parameters if where != "header"]
            rows += [f"| `{name}` | body | {kind} |" for name, kind in each.fields]
            table = "\n".join(["| name | in | what |", "|---|---|---|", *rows]) + "\n\n" if rows else ""
            headers = ", ".join(f"`{name}`" for name, where, _, _ in each.parameters if where == "header")
            answers = ", ".join(f"{status} {kind}" for status, kind in each.answers)
            parts.append(
                f"### {each.method} {each.path.removeprefix('/api/v1')}\n\n{each.summary}\n\n{table}"
                f"Roles: {', '.join(each.roles)}. Headers: {headers}. "
                f"Answers: {answers}; problems {', '.join(each.problems)}."
            )
    return "\n\n".join(parts).replace("|null", "null")


def with_http_reference(page: str) -> str:
    """The page with the endpoints as they are now."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{http_reference()}\n\n{_END}{after}"


def with_metrics(page: str) -> str:
    """The page with the metrics as they are now."""
    from headway.telemetry.metrics import METRICS

    parts = []
    for source, heading in (("process", "Of the process"), ("database", "Of the database")):
        rows = [
            f"| `{each.name}` | {each.type} | {', '.join(f'`{label}`' for label in each.labels) or '–'} | {each.help} |"
            for each in METRICS
            if each.source == source
        ]
        table = "\n".join(["| metric | type | labels | what it is |", "|---|---|---|---|", *rows])
        parts.append(f"## {heading}\n\n{table}")
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    listed = "\n\n".join(parts)
    return f"{before}{_BEGIN}\n\n{listed}\n\n{_END}{after}"


def signature(name: str, arguments: str, result: str) -> str:
    """A PostgreSQL function for people, from what pg_get_function_arguments and pg_get_function_result give."""
    text = arguments.replace("timestamp with time zone", "timestamptz")
    text = re.sub(r"(NULL|'[^']*')::[\w\[\] ]+?(?=,|$)", r"\1", text)
    text = text.replace(" DEFAULT ", " = ").replace("NULL", "null")
    given = re.sub(r"\bTABLE\(", "table (", result.replace("timestamp with time zone", "timestamptz"))
    given = given.replace("SETOF", "setof")
    one_line = f"headway.{name}({text})"
    if len(one_line) > 90:
        one_line = f"headway.{name}(\n  " + text.replace(", ", ",\n  ") + "\n)"
    return f"{one_line}\n  → {given}"


def with_signatures(page: str, functions: Iterable[tuple[str, str, str]]) -> str:
    """The page with the signature of each function that it has a heading for."""
    for name, arguments, result in functions:
        block = f"### headway.{name}\n\n```signature\n{signature(name, arguments, result)}\n```"
        old = rf"### headway\.{name}\n\n```signature\n.*?\n```"
        page = re.sub(old, lambda _, block=block: block, page, flags=re.DOTALL)  # type: ignore[misc]
    return page


def functions_of(url: str) -> list[tuple[str, str, str]]:
    """Name, arguments and result of all functions in the schema."""
    with psycopg.connect(url) as conn:
        return conn.execute(
            "select proname, pg_get_function_arguments(oid), pg_get_function_result(oid)"
            " from pg_proc where pronamespace = 'headway'::regnamespace order by proname"
        ).fetchall()


def main() -> None:
    from headway.testing import servers

    CLI_PAGE.write_text(with_cli_help(CLI_PAGE.read_text("utf-8")), "utf-8")
    METRICS_PAGE.write_text(with_metrics(METRICS_PAGE.read_text("utf-8")), "utf-8")
    HTTP_PAGE.write_text(with_http_reference(HTTP_PAGE.read_text("utf-8")), "utf-8")
    with servers.server() as server:
        databases = servers.Databases(server)
        found = functions_of(databases.url(databases.create()))
        databases.close()
    page = SQL_PAGE.read_text("utf-8")
    SQL_PAGE.write_text(with_signatures(page, found), "utf-8")
    for name in {name for name, _, _ in found} ^ set(re.findall(r"^### headway\.(\w+)$", page, re.MULTILINE)):
        print(f"add or remove by hand in {SQL_PAGE}: ### headway.{name}")


if __name__ == "__main__":
    main()
