"""Links between pages lead somewhere, and every page can be reached from the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import docs_pages

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def _anchors(page: Path) -> set[str]:
    """What GitHub makes of headings."""
    headings = re.findall(r"^#+ (.+)$", docs_pages.prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _targets(page: Path) -> list[str]:
    return [link for link in _LINK.findall(docs_pages.prose_of(page)) if "://" not in link]


@pytest.mark.parametrize("page", docs_pages.PAGES, ids=docs_pages.name_of)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for link in _targets(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{docs_pages.name_of(page)} links to {link}, which does not exist"
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), f"{docs_pages.name_of(page)} links to {link}: no such heading"


def test_every_page_can_be_reached_from_the_index() -> None:
    index = docs_pages.ROOT / "docs" / "index.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in _targets(index)}
    pages = {page for page in docs_pages.PAGES if page.is_relative_to(index.parent)} - {index}
    assert pages <= linked, f"not in docs/index.md: {sorted(map(docs_pages.name_of, pages - linked))}"


@pytest.mark.parametrize("page", docs_pages.PAGES, ids=docs_pages.name_of)
def test_a_page_begins_with_one_title(page: Path) -> None:
    prose = docs_pages.prose_of(page)
    assert prose.startswith("# ")
    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1


def test_every_test_that_the_security_page_names_exists() -> None:
    named = re.findall(r"`(tests/[^`]+)`", (docs_pages.ROOT / "SECURITY.md").read_text("utf-8"))
    assert len(named) > 10
    assert [name for name in named if not (docs_pages.ROOT / name).is_file()] == []
