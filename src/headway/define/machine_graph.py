"""A machine's declared steps as a Mermaid state diagram, read from the source of each step."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from headway.model.duration import show_ms, to_ms
from headway.model.machine import START
from headway.model.outcome import Outcomes

if TYPE_CHECKING:
    from headway.define.machine import Edition

END = "[*]"
_CLASSES: dict[str, type[msgspec.Struct]] = {each.__name__: each for each in get_args(Outcomes)}
_FIELDS = {name: each.__struct_fields__ for name, each in _CLASSES.items()}
_LONGEST = 40
# Mermaid's keywords
_RESERVED = re.compile(
    "acc(descr|title)|as|choice|class(def)?|click|default|direction|elsewhere|end|fork|hide|href|join|left|note|of|over"
    "|right|scale|state|style",
    re.IGNORECASE,
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Edge(msgspec.Struct, frozen=True):
    """One transition from a step; `to` is None if the code computes it."""

    step: str
    to: str | None
    outcome: str
    label: str


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine's source tells: its steps in order, the transitions, and what `handle` may return."""

    kind: str
    version: int
    steps: list[str]
    edges: list[Edge]
    handle: list[str]
    unread: list[str]  # steps whose source is not available


def graph_of(edition: Edition, kind: str) -> Graph:
    """Read one version of a machine, without executing any of it."""
    edges: list[Edge] = []
    unread: list[str] = []
    for name, step in edition.steps.items():
        calls = _outcomes(step.fn, edition.machine, edition.steps)
        if calls is None:
            unread.append(name)
            continue
        edges += [edge for call in calls for edge in call.edges(name)]
    handle = getattr(edition.machine, "handle", None)
    told = _outcomes(handle, edition.machine, edition.steps) if handle is not None else None
    return Graph(
        kind=kind,
        version=edition.version,
        steps=list(edition.steps),
        edges=list(dict.fromkeys(edges)),
        handle=list(dict.fromkeys(call.told() for call in told or ())),
        unread=unread,
    )


def mermaid(graph: Graph) -> str:
    """The graph as a `stateDiagram-v2`."""
    lines = ["stateDiagram-v2", f"    %% {graph.kind}, version {graph.version}"]
    names = {step: _identifier(step) for step in graph.steps}
    lines += [f'    state "{step}" as {name}' for step, name in names.items() if name != step]
    lines.append(f"    {END} --> {names[START]}")
    linked = {edge.step for edge in graph.edges} | {edge.to for edge in graph.edges} | {START}
    lines += [f"    {name}" for step, name in names.items() if step not in linked]
    computed = False
    for edge in graph.edges:
        to = END if edge.to == END else names.get(edge.to or "", "elsewhere")
        computed = computed or to == "elsewhere"
        lines.append(f"    {names[edge.step]} --> {to}" + (f" : {_label(edge.label)}" if edge.label else ""))
    if computed:
        lines.append('    state "a step that the code computes" as elsewhere')
    if graph.handle:
        lines += [f"    note right of {names[START]}", "        after an exception, in any step:"]
        lines += [f"        {_label(told)}" for told in graph.handle]
        lines.append("    end note")
    lines += [f"    %% the source of {step} cannot be read" for step in graph.unread]
    return "\n".join(lines)


class _Outcome:
    """One outcome as written in the code: `Await("payment", then=self.ship, timeout="3d")`."""

    def __init__(self, name: str, call: ast.Call, function: _Function, steps: Mapping[str, Any]) -> None:
        self.name = name
        self._function = function
        self._steps = steps
        self._given = dict(zip(_FIELDS[name], call.args, strict=False))
        self._given |= {word.arg: word.value for word in call.keywords if word.arg is not None}

    def edges(self, step: str) -> Iterator[Edge]:
        outcome = self.name.lower()
        for to in self._targets(step):
            yield Edge(step, to, outcome, self._label())

    def told(self) -> str:
        """For a note: what `handle` may return."""
        to = [each for each in self._targets(None) if each not in (None, END)]
        goes = f" to {' or '.join(map(str, to))}" if to else ""
        return f"{self._label() or self.name.lower()}{goes}"

    def _targets(self, step: str | None) -> list[str | None]:
        if self.name in ("Done", "Stop"):
            return [END]
        if self.name == "Replay":
            return [step]
        ref = self._given.get("step" if self.name == "Next" else "then")
        if ref is None or (isinstance(ref, ast.Constant) and ref.value is None):
            return [step]
        return self._refs(ref) or [None]

    def _refs(self, ref: ast.expr, depth: int = 0) -> list[str | None]:
        """The steps an expression may mean: `self.ship`, "ship", a choice of two, a variable that was assigned."""
        match ref:
            case ast.Attribute(value=ast.Name(), attr=name) if name in self._steps:
                return [name]
            case ast.Constant(value=str(name)):
                return [name if name in self._steps else None]
            case ast.IfExp(body=body, orelse=orelse):
                return [*self._refs(body, depth), *self._refs(orelse, depth)]
            case ast.Name(id=name) if depth < 3:
                return [each for value in self._assigned(name) for each in self._refs(value, depth + 1)] or [None]
        return [None]

    def _assigned(self, name: str) -> list[ast.expr]:
        found: list[ast.expr] = []
        for node in ast.walk(self._function):
            match node:
                case ast.Assign(targets=targets, value=value):
                    if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                        found.append(value)
                case ast.AnnAssign(target=ast.Name(id=known), value=ast.expr() as value) if known == name:
                    found.append(value)
        return found

    def _label(self) -> str:
        match self.name:
            case "Next":
                return ""
            case "Replay":
                return f"replay{self._duration('delay', ' after ')}"
            case "Await":
                return self._signals() + self._duration("timeout", ", or after ")
            case "Spawn":
                stops = _constant(self._given.get("on_failure")) == "stop"
                return "children" + (", stopped at the first failure" if stops else "")
            case "Sleep":
                return f"sleep{self._duration('delay', ' ')}"
            case "Done":
                return "done"
        reason = _constant(self._given.get("reason"))
        return "stop" + (f" ({_brief(reason)})" if isinstance(reason, str) else "")

    def _signals(self) -> str:
        names = self._given.get("names")
        if isinstance(names, ast.Name) and len(assigned := self._assigned(names.id)) == 1:
            names = assigned[0]
        match names:
            case ast.Constant(value=str(name)):
                return name
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                word = " and " if _constant(self._given.get("match")) == "all" else " or "
                return word.join(str(_constant(part) or ast.unparse(part)) for part in parts)
        return "a signal" if names is None else _brief(ast.unparse(names))

    def _duration(self, field: str, before: str) -> str:
        given = self._given.get(field)
        value = _constant(given)
        if given is None or (isinstance(given, ast.Constant) and not value):
            return ""
        if isinstance(value, int | float) and not isinstance(value, bool):
            return before + show_ms(to_ms(value))
        return before + (_brief(value) if isinstance(value, str) else _brief(ast.unparse(given)))


def _outcomes(
    fn: Callable[..., Any], machine: type, steps: Mapping[str, Any], seen: frozenset[str] = frozenset()
) -> list[_Outcome] | None:
    """The outcomes in a function's source and in the methods it calls on itself; None if it cannot be read."""
    parsed = _parsed(fn)
    if parsed is None:
        return None
    names = getattr(inspect.unwrap(fn), "__globals__", {})
    this = parsed.args.args[0].arg if parsed.args.args else ""
    found: list[_Outcome] = []
    for node in _in_order(parsed):
        if not isinstance(node, ast.Call):
            continue
        name = _outcome_name(node.func, names)
        if name is not None:
            found.append(_Outcome(name, node, parsed, steps))
            continue
        match node.func:
            case ast.Attribute(value=ast.Name(id=holder), attr=method) if holder == this and method not in seen:
                helper = inspect.getattr_static(machine, method, None)
                if inspect.isfunction(helper) and method not in steps:
                    found += _outcomes(helper, machine, steps, seen | {method}) or []
    return found


def _outcome_name(func: ast.expr, names: Mapping[str, Any]) -> str | None:
    """The outcome class that a call constructs, whatever name the module imported it under."""
    match func:
        case ast.Name(id=name) if name in names:
            known = names[name]
        case ast.Name(id=name):
            known = _CLASSES.get(name)  # imported inside the function
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            known = getattr(names.get(module), name, None) if name in _CLASSES else None
        case _:
            return None
    return next((name for name, each in _CLASSES.items() if each is known), None)


def _parsed(fn: Callable[..., Any]) -> _Function | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(fn))))
    except (OSError, TypeError, SyntaxError):
        return None
    first = tree.body[0] if tree.body else None
    return first if isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef) else None


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes in source order, outer ones first."""
    for child in ast.iter_child_nodes(node):
        yield child
        yield from _in_order(child)


def _constant(node: ast.expr | None) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def _identifier(step: str) -> str:
    return f"{step}_" if _RESERVED.fullmatch(step) else step


def _brief(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _label(text: str) -> str:
    # a colon or semicolon would end the label
    return re.sub(r"[:;#]", lambda match: f"#{ord(match[0])};", text)
