"""What a database whose work is moved refuses (store/transfer)."""

from __future__ import annotations

from typing import Any

from headway.app.transfer import _side
from headway.store.transfer.side import Note, Role
from tests.store.refusal_cases import A


def a_write_where_the_work_was_moved_away(db: Any) -> None:
    _seal(db, "source")
    db.enqueue(id=A)


def a_write_where_work_is_being_moved_in(db: Any) -> None:
    _seal(db, "target")
    db.enqueue(id=A)


def _seal(db: Any, role: Role) -> None:
    note = Note(A, role, "postgresql://there/work", "sealed" if role == "source" else "copying", False)
    side = _side(db.store)
    try:
        with side.writing(note.id):
            side.write_note(note)
            side.seal(note)
    finally:
        side.close()
