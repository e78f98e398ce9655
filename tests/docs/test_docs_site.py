"""What `make docs` makes of the pages: links, code blocks, navigation, foreign origins, versions, and a small site."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.conftest import chromium  # noqa: F401
from tests.docs import docs_pages
from tools import docs_site


def test_pages_are_copied_so_that_their_links_lead_to_pages(tmp_path: Path) -> None:
    docs_site.stage(tmp_path)
    pages = {path.relative_to(tmp_path / "docs"): path.read_text("utf-8") for path in (tmp_path / "docs").rglob("*.md")}
    for where, text in pages.items():
        for link in re.findall(r"\]\(([^)\s#]+)", docs_pages.prose_of(tmp_path / "docs" / where)):
            assert "://" in link or (tmp_path / "docs" / where.parent / link).exists(), f"{where} links to {link}"
        assert not re.search(r"^\s*```\w+[ \t]", text, re.MULTILINE), f"{where} has words behind a language"
    assert "](../project/security.md)" not in pages[Path("index.md")]  # from the top it is one folder down
    assert "](project/security.md)" in pages[Path("index.md")]
    assert "::: headway.app.Headway" in pages[Path("reference/python.md")]

    named = set(_pages_of(docs_site.navigation()))
    assert named == {path.as_posix() for path in pages}
    listed = re.findall(r"\]\(([^)]+)\.html\): \S", (tmp_path / "docs/llms.txt").read_text("utf-8"))
    assert {f"{name}.md" for name in listed} == {
        name for name in named if not name.startswith("project/") and name not in ("index.md", "reference/python.md")
    }


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.html", '<a href="https://elsewhere.example">there</a>', 0),
        ("a.html", '<script src="assets/a.js"></script><link rel="stylesheet" href="../a.css">', 0),
        ("a.html", '<link rel="canonical" href="https://headway.example/">', 0),
        ("a.html", '<script async src="https://cdn.example/a.js"></script>', 1),
        ("a.html", '<img alt="x" src="//cdn.example/a.png">', 1),
        ("a.html", '<link rel="stylesheet" href="https://fonts.example/a.css">', 1),
        ("a.html", "<link rel=preconnect href=https://fonts.example crossorigin>", 1),
        ("a.html", '<script type="application/json">{"base": ".", "search": "workers/search.js"}</script>', 0),
        (
            "a.html",
            '<script type="application/json">{"base": "//a.example", "search": "https://b.example"}</script>',
            2,
        ),
        ("a.html", '<pre class="mermaid"><code>', 1),
        ("a.css", '@import "https://fonts.example/a.css"; a {background: url(//cdn.example/a.png)}', 2),
    ],
)
def test_what_a_browser_would_load_from_elsewhere_is_found(tmp_path: Path, name: str, text: str, found: int) -> None:
    (tmp_path / name).write_text(text)
    assert len(docs_site.foreign(tmp_path)) == found


def test_a_site_opened_from_a_folder_can_be_searched_and_leads_to_its_other_versions(
    tmp_path: Path,
    chromium: Any,  # noqa: F811
) -> None:
    folder, out = tmp_path / "staged", tmp_path / "out"
    (folder / "docs/assets").mkdir(parents=True)
    (folder / "docs/index.md").write_text("# Home\n\nNothing about it.\n")
    (folder / "docs/trains.md").write_text("# Order\n\n## How do I couple a locomotive?\n\nWith care.\n")
    (folder / "docs/assets/iframe-worker.js").write_bytes(docs_site.WORKER.read_bytes())
    settings = docs_site.settings()
    plugins = [plugin for plugin in settings["plugins"] if "mkdocstrings" not in plugin]  # slow, and of no concern here
    settings |= {"plugins": plugins, "nav": [{"Home": "index.md"}, {"Order": "trains.md"}]}
    (folder / "mkdocs.yml").write_text(json.dumps(settings))
    docs_site.draw(folder, out / "0.9.2")
    for other in ("0.10.0", "0.9.10"):
        (out / other).mkdir()
        (out / other / "index.html").write_text(other)
        (out / other / "llms.txt").write_text("- [Trains](how-to/trains.html): Order.\n")
    docs_site.index(out)
    assert "url=0.10.0/index.html" in (out / "index.html").read_text()
    assert (out / "llms.txt").read_text() == "- [Trains](0.10.0/how-to/trains.html): Order.\n"
    assert docs_site.foreign(out) == []

    page = chromium.new_page()
    page.goto((out / "0.9.2/index.html").as_uri())
    page.locator(".md-search__input").click()
    page.keyboard.type("how do I couple")  # "how" and "do" and "I" find nothing by themselves
    found = page.locator(".md-search-result__item")
    found.first.wait_for()
    assert found.count() == 1
    assert "How do I couple a locomotive?" in found.inner_text()
    page.goto((out / "0.9.2/trains.html").as_uri())
    assert page.locator(".md-version__current").inner_text() == "0.9.2"
    links = page.locator(".md-version__link")
    assert links.all_inner_texts() == ["0.10.0", "0.9.10", "0.9.2"]
    assert links.first.get_attribute("href") == (out / "0.10.0/index.html").as_uri()
    page.close()


def _pages_of(navigation: list[Any]) -> list[str]:
    found = []
    for item in navigation:
        for value in item.values():
            found += [value] if isinstance(value, str) else _pages_of(value)
    return found
