"""Writes the façade's async verbs from its blocking ones: `app/trains.py` becomes `app/aio/trains.py`.

    python tools/async_twins.py

Every public method that blocks gets a twin with an `a` before its name (`cancel`, `acancel`), and so do the methods it
calls. A call of the store blocks, `time.sleep` does, and whatever leads to one. A twin that the blocking class has
already, written by hand, is left alone. `make format` runs this; a test compares its result with what is checked in.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
APP = ROOT / "src" / "headway" / "app"
AIO = APP / "aio"
# in an order in which each finds its bases done
SOURCES = (
    *(
        "tenants",
        "base",
        "payloads",
        "enqueue",
        "jobs",
        "find",
        "bulk",
        "delete",
        "queues",
        "flows",
        "machines",
        "trains",
        "group_handle",
        "groups",
        "limits",
    ),
    *(
        "reservation",
        "run_now",
        "definitions",
        "templates",
        "connectors",
        "webhooks",
        "trigger_rows",
        "schedules",
        "backfill",
        "events",
        "triggers",
        "prune",
        "audit_chain",
        "api_keys",
        "job_lists",
        "tenant_care",
        "stats",
        "error_groups",
        "overview",
        "artifacts",
    ),
)
# calls that block wherever they stand, and what to await instead
BLOCKING = {
    "self._store.run": "self._store.arun",
    "self._store.run_in": "self._store.arun_in",
    "self._whole_store.run": "self._whole_store.arun",
    "self._whole_store.run_in": "self._whole_store.arun_in",
    "self._results.outcome": "self._results.aoutcome",
    "self._places.open": "self._places.aopen",
    "self._places.read": "self._places.aread",
    "self._places.write_payload": "self._places.awrite_payload",
    "self._places.download": "self._places.adownload",
    "self._places.discard": "self._places.adiscard",
    "time.sleep": "asyncio.sleep",
}
# names whose twins do not follow the rule
NAMES = {"wait": "await_"}
# they look a tenant up; async verbs did that before (tenants.py)
NEVER_BLOCK = ("_id_of", "_id_for")
# checks that only the blocking verb needs
DROPPED = ("refuse_in_event_loop",)
# options that have no tenant
NO_TENANT = ("Unpack[JobChanges]", "Unpack[RetryChanges]", "Unpack[DefinitionChanges]")
ENTRANCES = ("__enter__", "__exit__", "_ensure_known")
# verbs that look up what their jobs and events name by themselves, in the caller's transaction if need be
KNOWING = ("enqueue", "emit", "learn")
# verbs that make a tenant of a new name
CREATING = (
    "create_schedule",
    "ensure_schedule",
    "create_template",
    "create_connector",
    "add_webhook",
    "create_trigger",
    "hold_train",
    "limit",
    "create_key",
)
HEADER = '"""Generated from {source} by tools/async_twins.py: change that, and run this."""'

Function = ast.FunctionDef
Method = tuple[str, str]  # its class and its name


class Source:
    """A module of blocking verbs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tree = ast.parse((APP / f"{name}.py").read_text("utf-8"))
        self.classes = [node for node in self.tree.body if isinstance(node, ast.ClassDef)]

    @property
    def module(self) -> str:
        return f"headway.app.{self.name}"


def twin_name(name: str) -> str:
    """`cancel` is `acancel`, `_store_jobs` is `_astore_jobs`, `__enter__` is `__aenter__`."""
    stem = name.lstrip("_")
    return NAMES.get(name) or name[: len(name) - len(stem)] + "a" + stem


def class_name(name: str) -> str:
    """`TrainVerbs` is `AsyncTrainVerbs`; `BlockingReserved`, whose users need not know of two, is `Reserved`."""
    return name.removeprefix("Blocking") if name.startswith("Blocking") else f"Async{name}"


def methods(node: ast.ClassDef) -> Iterator[Function]:
    return (each for each in node.body if isinstance(each, Function))


def written_by_hand(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.AsyncFunctionDef)}


def calls(node: ast.AST) -> Iterator[str]:
    """What is called or looked at: `self.get`, `self._store.run`, `time.sleep`."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            yield ast.unparse(each.func)


def method_called(target: str) -> str | None:
    """The name of the method, where it is one of the façade."""
    owner, _, name = target.rpartition(".")
    return name if owner in ("self", "self._verbs") else None


def blocking_methods(sources: list[Source]) -> set[Method]:
    """The methods that block, whether by themselves or by what they call."""
    found: set[Method] = set()
    while True:
        names = {name for _, name in found}
        more = {
            (node.name, method.name)
            for source in sources
            for node in source.classes
            for method in methods(node)
            if method.name not in NEVER_BLOCK
            and (
                twin_name(method.name) in written_by_hand(node)
                or any(target in BLOCKING or method_called(target) in names for target in calls(method))
            )
        }
        if more == found:
            return found
        found = more


def wanted_methods(sources: list[Source], blocking: set[Method]) -> set[Method]:
    """Those of them that people call, and the private ones on the way."""
    wanted = {(owner, name) for owner, name in blocking if not name.startswith("_") or name in ENTRANCES}
    while True:
        names = {
            method_called(target)
            for source in sources
            for node in source.classes
            for method in methods(node)
            if (node.name, method.name) in wanted
            for target in calls(method)
        }
        more = wanted | {(owner, name) for owner, name in blocking if name in names}
        if more == wanted:
            return wanted
        wanted = more


class Awaiting(ast.NodeTransformer):
    """Makes a blocking method wait without blocking."""

    def __init__(self, twinned: set[str]) -> None:
        self._twinned = twinned

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node  # the steps of an op, which have no colour

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in DROPPED:
            return None
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        loops = isinstance(node.iter, ast.Call) and method_called(ast.unparse(node.iter.func)) in self._twinned
        self.generic_visit(node)
        if not loops:
            return node
        assert isinstance(node.iter, ast.Await)
        return ast.AsyncFor(target=node.target, iter=node.iter.value, body=node.body, orelse=node.orelse)

    def visit_With(self, node: ast.With) -> ast.AST:
        self.generic_visit(node)
        waits = "self._reserved(" in ast.unparse(node.items[0])
        return ast.AsyncWith(items=node.items, body=node.body) if waits else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        target = ast.unparse(node.func)
        name = method_called(target)
        if target in BLOCKING:
            node.func = ast.parse(BLOCKING[target], mode="eval").body
        elif name in self._twinned and isinstance(node.func, ast.Attribute):
            node.func.attr = twin_name(name)
        else:
            return node
        return ast.Await(value=node)


def twin(method: Function, names: set[str], *, is_verb: bool) -> ast.AsyncFunctionDef:
    body = [made for each in method.body if (made := Awaiting(names).visit(each)) is not None]
    if is_verb and not method.name.startswith(("_", *KNOWING)):
        body.insert(1 if ast.get_docstring(method) else 0, _look_up(method))
    returns = method.returns
    if isinstance(returns, ast.Subscript) and ast.unparse(returns.value) == "Iterator":
        returns = ast.Subscript(value=ast.Name("AsyncIterator"), slice=returns.slice)
    return ast.AsyncFunctionDef(
        name=twin_name(method.name),
        args=method.args,
        body=body,
        decorator_list=[],  # a property becomes a method: nothing else can be awaited
        returns=returns,
        type_params=[],
    )


def generate(source: Source, twinned: set[Method], done: dict[str, str]) -> str:
    """The text of the module of async verbs; adds its classes to `done`, with the modules that they come from."""
    names = {name for _, name in twinned}
    made: list[ast.ClassDef] = []
    imports: dict[str, set[str]] = {}
    for node in source.classes:
        by_hand = written_by_hand(node)
        bases = [class_name(name) for base in node.bases if class_name(name := ast.unparse(base)) in done]
        twins = [
            twin(each, names, is_verb=bool(bases))
            for each in methods(node)
            if (node.name, each.name) in twinned and twin_name(each.name) not in by_hand
        ]
        if not twins and not bases:
            continue
        for base in bases:
            imports.setdefault(done[base], set()).add(base)
        made.append(
            ast.ClassDef(
                name=class_name(node.name),
                bases=[ast.Name(node.name), *map(ast.Name, bases)],
                keywords=[],
                body=[_docstring(node), *twins],
                decorator_list=[],
                type_params=[],
            )
        )
    for node in made:
        done[node.name] = f"headway.app.aio.{source.name}"
    body = "\n\n\n".join(ast.unparse(ast.fix_missing_locations(node)) for node in made)
    own = {name for name in _defined(source.tree) if name in _names(body)}
    imports.setdefault(source.module, set()).update(own)
    lines = [HEADER.format(source=f"app/{source.name}.py"), "from __future__ import annotations", "import asyncio"]
    lines += ["from collections.abc import AsyncIterator", *_imports(source.tree)]
    lines += [f"from {module} import {', '.join(sorted(names))}" for module, names in imports.items() if names]
    return "\n".join(lines) + "\n\n" + body + "\n"


def _look_up(method: Function) -> ast.stmt:
    """Looks up the app's tenant, and the one that the call names."""
    refs = ["self._own_tenant"]
    if any(each.arg == "tenant" for each in method.args.kwonlyargs):
        refs.append("tenant")
    elif (rest := method.args.kwarg) is not None and ast.unparse(rest.annotation) not in NO_TENANT:
        refs.append(f"{rest.arg}.get('tenant')")
    if method.name in CREATING:
        refs.append("create=True")
    return ast.parse(f"await self._aensure_known({', '.join(refs)})").body[0]


def _docstring(node: ast.ClassDef) -> ast.stmt:
    if node.name.startswith("Blocking"):
        return node.body[0]
    return ast.Expr(ast.Constant(f"The async twins of the verbs of `{node.name}`."))


def _imports(tree: ast.Module) -> list[str]:
    """All of them: ruff removes what is not used."""
    return [
        ast.unparse(each)
        for each in tree.body
        if isinstance(each, ast.Import) or (isinstance(each, ast.ImportFrom) and each.module != "__future__")
    ]


def _defined(tree: ast.Module) -> Iterator[str]:
    for each in tree.body:
        match each:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def _names(text: str) -> set[str]:
    return {each.id for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Name)}


def _tidy(text: str) -> str:
    """Formatted, with its imports sorted and without those that nothing uses."""
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    name = ["--stdin-filename", str(AIO / "generated.py")]
    for command in (["check", "--fix-only", "--quiet"], ["format", "--quiet"]):
        text = subprocess.run(
            [*ruff, *command, *name, "-"], input=text, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
    return text


def modules() -> dict[Path, str]:
    """The path and the text of each module of async verbs."""
    sources = [Source(name) for name in SOURCES]
    twinned = wanted_methods(sources, blocking_methods(sources))
    done: dict[str, str] = {}
    return {AIO / f"{source.name}.py": _tidy(generate(source, twinned, done)) for source in sources}


def main() -> None:
    for name in SOURCES:
        (AIO / f"{name}.py").touch()  # so that ruff sorts them in among our own modules
    for path, text in modules().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
