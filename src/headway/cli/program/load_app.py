"""Imports the app that `module:app` names; if that fails, says exactly what is wrong."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import pkgutil
import sys
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, Any

from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.app import Headway


def load(spec: str, app_dir: str | None = None) -> Headway:
    """The app of `module:attribute` (default: app), which may also be a registry or a function that returns an app.

    Raises `ConfigError` that names the one thing that is wrong.
    """
    module_name, _, attribute = spec.partition(":")
    folder = os.path.abspath(app_dir or os.curdir)
    _check(spec, module_name, folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = _import(module_name, folder)
    return _as_app(_find(module, attribute or "app"), f"{module_name}:{attribute or 'app'}")


def _check(spec: str, module: str, folder: str) -> None:
    if not os.path.isdir(folder):
        raise ConfigError(f"--app-dir {folder} is not a folder")
    if module.endswith(".py") or "/" in module or "\\" in module:
        path = module.removesuffix(".py").lstrip("./").replace("/", ".").replace("\\", ".")
        raise ConfigError(f"{spec!r} is a path: name the module as `import` would, {path}:app")
    if not module or not all(part.isidentifier() for part in module.split(".")):
        raise ConfigError(f"{spec!r} does not name an app: write module:attribute, such as myapp:app")


def _import(name: str, folder: str) -> ModuleType:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing == name or name.startswith(f"{missing}."):
            raise ConfigError(_no_module(missing, name, folder)) from error
        raise ConfigError(_broken(name, error)) from error
    except (Exception, SystemExit) as error:
        raise ConfigError(_broken(name, error)) from error


def _no_module(missing: str, name: str, folder: str) -> str:
    parent, _, leaf = missing.rpartition(".")
    if parent:
        package = sys.modules.get(parent)
        there = [found.name for found in pkgutil.iter_modules(getattr(package, "__path__", None) or [])]
        place = (
            f"package {parent}" if hasattr(package, "__path__") else f"{parent}, which is a module and not a package"
        )
    else:
        there = [found.name for found in pkgutil.iter_modules([folder])]
        place = f"{folder} or among the installed packages"
    close = difflib.get_close_matches(leaf, there, 1)
    prefix = f"{parent}." if parent else ""
    hint = (
        f"did you mean {prefix}{close[0]}?"
        if close
        else "run this in the folder that has it, or name that folder with --app-dir"
    )
    asked = "" if missing == name else f" (of {name})"
    return f"there is no module named {missing!r}{asked} in {place}: {hint}"


def _broken(name: str, error: BaseException) -> str:
    """What failed inside a module that exists, and where."""
    place = _place(error)
    if isinstance(error, SystemExit):
        return (
            f"module {name} ends the process when it is imported (sys.exit{place}): "
            'put what it runs as a script under `if __name__ == "__main__":`'
        )
    fix = ""
    if isinstance(error, ModuleNotFoundError):
        fix = ": install what is missing into this Python environment, or correct the import"
    if isinstance(error, SyntaxError):
        place = f" ({error.filename}, line {error.lineno})"
        return f"module {name} cannot be imported: {type(error).__name__}: {error.msg}{place}"
    return f"module {name} was found, but importing it failed: {type(error).__name__}: {_first(error)}{place}{fix}"


def _place(error: BaseException) -> str:
    """Where in the user's code it happened: the last frame outside the import machinery."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and frame.filename not in (__file__, importlib.__file__)
    ]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _find(module: ModuleType, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            raise ConfigError(_no_attribute(module, found, name))
        found = getattr(found, name)
    return found


def _no_attribute(module: ModuleType, holder: Any, name: str) -> str:
    from headway.app import Headway

    public = [each for each in vars(holder) if not each.startswith("_")] if hasattr(holder, "__dict__") else []
    apps = [each for each in public if isinstance(getattr(holder, each, None), Headway)]
    close = difflib.get_close_matches(name, public, 1)
    where = f"module {module.__name__}" + (f" ({module.__file__})" if getattr(module, "__file__", None) else "")
    if apps:
        hint = f"its app is {module.__name__}:{apps[0]}"
    elif close:
        hint = f"did you mean {module.__name__}:{close[0]}?"
    else:
        hint = f"make one there: {name} = Headway()"
    return f"{where} has no attribute {name!r}: {hint}"


def _as_app(found: Any, spec: str) -> Headway:
    from headway.app import Headway
    from headway.define import Kind, Registry

    made = ""
    if callable(found) and not isinstance(found, type | Kind | Headway | Registry):
        if inspect.iscoroutinefunction(found):
            raise ConfigError(f"{spec} is an async function: the function that makes an app must be a plain one")
        try:
            found = found()
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {_first(error)}{_place(error)}"
            raise ConfigError(f"{spec}() was called to make the app, and failed: {reason}") from error
        made = "() gives"
    match found:
        case Headway():
            return found
        case Registry():
            app = Headway()
            app.include(found)
            return app
        case Kind():
            raise ConfigError(
                f'{spec} is the kind "{found.name}", not an app: name the Headway object it is defined on'
            )
        case _:
            what = f"the class {found.__name__}" if isinstance(found, type) else f"of type {type(found).__name__}"
            verb = made or " is"
            raise ConfigError(f"{spec}{verb} {what}, not a Headway app (nor a Registry, nor a function that makes one)")


def _first(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "without a message"
