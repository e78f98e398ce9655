"""Builds docs/ into a searchable site that loads nothing from elsewhere: `python tools/docs_site.py [FOLDER]`.

The pages stay as GitHub shows them. Here they are copied, the links that leave docs/ are led to the copies of those
pages or made plain text, what only our tests read is taken out of code blocks, and the navigation is read from
docs/index.md. A broken link, a missing heading or a foreign origin ends the build.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# the theme's search, for pages opened from a folder
WORKER = Path(__file__).with_name("docs_search_worker.js")
# the menu of versions
VERSIONS = Path(__file__).with_name("docs_versions.js")
PROJECT = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(\s*```\w+)[ \t].*$")
_ITEM = re.compile(r"^- \[([^\]]+)\]\(([^)]+)\)(.*)$")
# what a browser loads by itself; a link that a reader clicks may lead anywhere
_LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\"'> ]+"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|icon|preload|preconnect|dns-prefetch|modulepreload))"
    r"[^>]*\bhref=[\"']?(?:https?:)?//[^\"'> ]+"
    r"|(?:@import\s+|url\()[\"']?(?:https?:)?//[^\"') ]+"
    # what the theme's script loads: its search and the index, and for a diagram the library that draws it
    r"|\"(?:base|search)\": \"(?:https?:)?//[^\"]+"
    r"|<pre\b[^>]*\bclass=[\"']?mermaid\b"
)
# Between words: space and marks; and the words of a question that every page has, which would find every page,
# because the theme searches for words that begin with each of them.
_SEPARATOR = (
    r"[\s\-,:!?=\[\]()\"/]+|\.(?!\d)|&[lg]t;|"
    r"\b(?:[Hh]ow|[Ww]hat|[Ww]hen|[Ww]here|[Ww]hy|[Ii]s|[Dd]oes|[Dd]o|[Cc]an|I|i|[Mm]y|[Aa]n?|[Tt]he|[Ii]f|to|of|at|in|on|it|and|or|for)\b"
)
_CODE = """---
search:
  boost: 0.3
---
# Python names

What `import headway` gives, read from the code. [Python API](api.md) says more, with examples.

"""


def version() -> str:
    found = re.search(r'__version__ = "([^"]+)"', (ROOT / "src/headway/version.py").read_text("utf-8"))
    assert found
    return found[1]


def stage(folder: Path) -> None:
    """Write the pages as the site has them, with its settings, into a folder."""
    pages = folder / "docs"
    for page in DOCS.rglob("*"):
        target = pages / page.relative_to(DOCS)
        if page.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif page.suffix == ".md":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(adapted(page, page.relative_to(DOCS)), "utf-8")
        else:
            shutil.copyfile(page, target)
    for name in PROJECT:
        where = Path("project") / name.lower()
        (pages / "project").mkdir(exist_ok=True)
        (pages / where).write_text(adapted(ROOT / name, where), "utf-8")
    (pages / "reference/python.md").write_text(_code(), "utf-8")
    (pages / "llms.txt").write_text(llms(), "utf-8")
    (pages / "assets").mkdir()
    shutil.copyfile(WORKER, pages / "assets/iframe-worker.js")
    (folder / "mkdocs.yml").write_text(json.dumps(settings(), indent=1), "utf-8")


def adapted(page: Path, where: Path) -> str:
    """A page for the site, where it will be at `where`."""
    parts: list[list[str]] = [[]]  # prose and code in turns: a link may go over several lines
    for line in page.read_text("utf-8").splitlines(keepends=True):
        code = len(parts) % 2 == 0
        if not line.lstrip().startswith("```"):
            parts[-1].append(line)
        elif code:
            parts[-1].append(line)
            parts.append([])
        else:
            parts.append([_FENCE.sub(r"\1", line)])
    texts = ["".join(part) for part in parts]
    texts[::2] = [_LINK.sub(lambda found: _link(found, page, where), text) for text in texts[::2]]
    return "".join(texts)


def _link(found: re.Match[str], page: Path, where: Path) -> str:
    text, link = found[1], found[2]
    path, _, anchor = link.partition("#")
    if "://" in link or not path:
        return found[0]
    target = (page.parent / path).resolve()
    if target.is_relative_to(DOCS) and target.suffix:
        inside = target.relative_to(DOCS)
    elif target.parent == ROOT and target.name in PROJECT:
        inside = Path("project") / target.name.lower()
    else:
        return text  # a file of the repository, which the site does not have
    up = "../" * (len(where.parts) - 1)
    return f"[{text}]({up}{inside.as_posix()}{'#' + anchor if anchor else ''})"


def navigation() -> list[dict[str, Any]]:
    """The sections of docs/index.md, and inside of them its paragraphs."""
    sections: list[dict[str, Any]] = [{"Home": "index.md"}]
    items: list[Any] = []
    for line in (DOCS / "index.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            items = []
            sections.append({line[3:]: items})
            inside = items
        elif line.endswith(":") and not line.startswith(("-", " ")) and len(sections) > 1:
            inside = []
            items.append({line[:-1]: inside})
        elif (item := _ITEM.match(line)) and item[2].endswith(".md") and not item[2].startswith(".."):
            inside.append({item[1]: item[2]})
    for section in sections:
        section.get("Reference", []).append({"Python names": "reference/python.md"})
    return [*sections, {"Project": [{name.removesuffix(".md").title(): f"project/{name.lower()}"} for name in PROJECT]}]


def llms() -> str:
    """The pages in a form for language models (llmstxt.org): what each is about, and where it is."""
    lines = ["# Headway", "", "> A durable work engine for Python, on a SQLite file or on PostgreSQL.", ""]
    for line in (DOCS / "index.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            lines += [line, ""]
        elif (item := _ITEM.match(line)) and item[2].endswith(".md") and not item[2].startswith(".."):
            lines.append(f"- [{item[1]}]({item[2].removesuffix('.md')}.html): {_first(DOCS / item[2])}")
        elif not line and lines[-1]:
            lines.append("")
    return "\n".join(lines).strip() + "\n"


def _first(page: Path) -> str:
    """The first sentence of a page."""
    paragraphs = page.read_text("utf-8").split("\n\n")
    text = next(part for part in paragraphs if part and not part.startswith(("#", "<!--", "```", "|")))
    plain = _LINK.sub(r"\1", " ".join(text.split()))
    return re.split(r"(?<=[.!?]) ", plain)[0].rstrip(":")


def _code() -> str:
    sys.path.insert(0, str(ROOT / "src"))
    import headway

    names = [f"::: {headway._HOMES[name]}.{name}\n" for name in headway.__all__]
    return _CODE + "\n".join(names)


def settings() -> dict[str, Any]:
    options = {
        "show_source": False,
        "show_root_heading": True,
        "inherited_members": True,
        "show_if_no_docstring": False,
        "members_order": "source",
        "separate_signature": True,
        "show_signature_annotations": True,
        "show_bases": False,
        "heading_level": 2,
    }
    return {
        "site_name": "Headway",
        "site_description": "A durable work engine for Python.",
        "copyright": f"Headway {version()}",
        "use_directory_urls": False,
        "docs_dir": "docs",
        "theme": {
            "name": "material",
            "font": False,  # else it comes from Google
            "features": [
                "navigation.sections",
                "navigation.top",
                "navigation.footer",
                "content.code.copy",
                "toc.follow",
            ],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "indigo"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "indigo"},
            ],
        },
        # the plugin "offline" asks for a script of this name from a CDN unless one is given
        "extra": {"generator": False, "polyfills": ["assets/iframe-worker.js"]},
        # beside the folders of all versions, so that the pages of an old one know the new ones
        "extra_javascript": ["../versions.js"],
        "plugins": [
            {"search": {"separator": _SEPARATOR}},
            "offline",
            {"mkdocstrings": {"handlers": {"python": {"paths": [str(ROOT / "src")], "options": options}}}},
        ],
        "markdown_extensions": [
            "tables",
            "md_in_html",
            "pymdownx.superfences",
            {"pymdownx.highlight": {"default_lang": "text"}},
            {"toc": {"permalink": True, "slugify": "SLUGIFY"}},
        ],
        "validation": {"links": {"anchors": "warn", "not_found": "warn", "unrecognized_links": "warn"}},
        "nav": navigation(),
    }


def foreign(site: Path) -> list[str]:
    """What pages and styles of the site would load from elsewhere."""
    return [
        f"{path.relative_to(site)}: {found[0]}"
        for path in sorted(site.rglob("*"))
        if path.suffix in (".html", ".css")
        for found in _LOADED.finditer(path.read_text("utf-8"))
    ]


def build(out: Path) -> None:
    """Build this version into a folder of its own, beside those that are there, and point the front page to it."""
    site = out / version()
    with tempfile.TemporaryDirectory(prefix="headway-docs-") as name:
        stage(Path(name))
        draw(Path(name), site)
    if loaded := foreign(site):
        sys.exit("the site loads from elsewhere:\n" + "\n".join(loaded))
    index(out)
    sys.stdout.write(f"{site / 'index.html'}\n")


def draw(folder: Path, site: Path) -> None:
    """Make the site of staged pages."""
    config = folder / "mkdocs.yml"
    # GitHub's anchors; YAML of Python objects is not JSON
    slugify = "!!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"
    config.write_text(config.read_text("utf-8").replace('"SLUGIFY"', slugify), "utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def index(out: Path) -> None:
    """Write what stands beside the versions: which there are, and the way to the newest."""
    versions = sorted((path.parent.name for path in out.glob("*/index.html")), key=_numbers, reverse=True)
    newest = versions[0]
    (out / "versions.js").write_text(VERSIONS.read_text("utf-8").replace("[]", json.dumps(versions), 1), "utf-8")
    (out / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={newest}/index.html">\n'
    )
    pages = (out / newest / "llms.txt").read_text("utf-8")
    (out / "llms.txt").write_text(_LINK.sub(rf"[\1]({newest}/\2)", pages), "utf-8")


def _numbers(name: str) -> list[int]:
    """0.10.0 is newer than 0.9.2."""
    return [int(number) for number in re.findall(r"\d+", name)]


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/site")
