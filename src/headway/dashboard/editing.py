"""Saves a form: what the person changed, unless somebody else was quicker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.dashboard.forms import (
    Field,
    FormState,
    Refusal,
    again,
    body_of_change,
    body_of_new,
    is_stale,
    merged,
    new_form,
)
from headway.dashboard.table import Form, Page, Redirect

ShowForm = Callable[[FormState, int], Awaitable[Page]]
"""Makes the page of a form with this status."""
Stored = tuple[Mapping[str, str], int | str]
"""What is stored, as the form shows it, and its revision."""


async def create(
    fields: Sequence[Field],
    given: Form,
    show: ShowForm,
    store: Callable[[dict[str, Any]], Awaitable[Page | Redirect]],
) -> Page | Redirect:
    """Create what the form says, or show it again with what the API says against it."""
    if given.get("do") == "preview":
        return await show(new_form(fields, given), 200)
    try:
        return await store(body_of_new(fields, given))
    except Refusal as error:
        return await show(new_form(fields, given, error), 422)


async def change(
    fields: Sequence[Field],
    given: Form,
    show: ShowForm,
    store: Callable[[dict[str, Any], str], Awaitable[Any]],
    read: Callable[[], Awaitable[Stored]],
    *,
    to: str,
) -> Page | Redirect:
    """Change what the person changed in the form; where what is stored is another version by now, show both."""
    if given.get("do") == "preview":
        state = replace(new_form(fields, given), revision=given.get("revision", ""), was=given.get("was", "{}"))
        return await show(state, 200)
    try:
        changes = body_of_change(fields, given)
        if changes:
            await store(changes, given.get("revision", ""))
    except Refusal as error:
        if not is_stale(error):
            return await show(again(fields, given, error), 422)
        texts, revision = await read()
        return await show(merged(fields, given, texts, revision), 412)
    return Redirect(to, "It is changed." if changes else "Nothing was changed.")
