"""A train as a train: the locomotive, its cars, and the signal that stops it."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from headway.model.train import Train

_CAR, _GAP, _HEIGHT, _TOP = 104, 10, 44, 24
_NOSE = 18  # how far the locomotive's front slants
_MOST = 10
_LONGEST = 14  # letters of a kind that fit a car
_ROOM = 56  # for the signal


def train_picture(train: Train, cars: list[Any]) -> Markup:
    """The first cars, the locomotive on the right: it goes that way. Where a car that did not succeed holds the train,
    that one stands before it."""
    shown = cars[:_MOST]
    more = train.length - len(shown)
    failed = train.hold is not None and train.hold.job_id is not None
    places = max(1, len(shown) + (more > 0) + failed)
    width = places * (_CAR + _GAP) + _ROOM
    ground = _TOP + _HEIGHT + 10
    parts = [Markup('<line class="rail" x1="0" x2="{0}" y1="{1}" y2="{1}"/>').format(width, ground)]
    right = width - _ROOM
    if train.hold is not None and train.hold.job_id is not None:
        right -= _CAR + _GAP
        title = f"job {train.hold.job_id} did not succeed, and holds the train"
        parts.append(_car(right, "failed", "holds the train", title, "dead", is_locomotive=False))
    for index, car in enumerate(shown):
        right -= _CAR + _GAP
        title = f"{car['kind']} {car['id']}: {car['status']}"
        parts.append(_car(right, car["kind"], car["status"], title, car["status"], is_locomotive=index == 0))
    if more > 0:
        parts.append(
            Markup('<text x="{}" y="{}" text-anchor="middle">{} more</text>').format(
                right - _GAP - _CAR / 2, _TOP + _HEIGHT / 2 + 4, f"{more:,}"
            )
        )
    state = "on hold" if train.hold is not None else "moving" if train.head_status == "running" else "standing"
    parts.append(_signal(width - 26, ground, train.hold is not None))
    label = f"train {train.train}, {train.length:,} cars, {state}"
    return Markup('<svg class="train" viewBox="0 0 {0} {1}" width="{0}" role="img" aria-label="{2}">{3}</svg>').format(
        width, ground + 8, label, Markup("").join(parts)
    )


def _signal(at: float, ground: float, is_stop: bool) -> Markup:
    """A bar across is stop, a bar along is go: by its shape, too."""
    shape = (
        Markup('<rect class="signal stop" x="{}" y="6" width="28" height="9" rx="2"/>').format(at - 14)
        if is_stop
        else Markup('<rect class="signal go" x="{}" y="2" width="9" height="24" rx="2"/>').format(at - 4.5)
    )
    return Markup('<g><title>{0}</title><line class="rail" x1="{1}" x2="{1}" y1="10" y2="{2}"/>{3}</g>').format(
        "on hold" if is_stop else "the way is clear", at, ground, shape
    )


def _car(left: float, name: str, below: str, title: str, status: str, *, is_locomotive: bool) -> Markup:
    top, bottom, right = _TOP, _TOP + _HEIGHT, left + _CAR
    if is_locomotive:
        nose = right
        body = f"M{left + 4} {top}H{nose - _NOSE}L{nose} {bottom - 12}V{bottom - 4}q0 4-4 4H{left + 4}"
        body += f"q-4 0-4-4V{top + 4}q0-4 4-4z"
    else:
        body = f"M{left + 4} {top}H{right - 4}q4 0 4 4V{bottom - 4}q0 4-4 4H{left + 4}q-4 0-4-4V{top + 4}q0-4 4-4z"
    middle = left + (_CAR - (_NOSE / 2 if is_locomotive else 0)) / 2
    return Markup(
        '<g><title>{title}</title><path class="car {status}" d="{body}"/>'
        '<text class="name" x="{middle}" y="{first}" text-anchor="middle">{name}</text>'
        '<text x="{middle}" y="{second}" text-anchor="middle">{below}</text>'
        '<circle class="wheel" cx="{left}" cy="{wheel}" r="5"/><circle class="wheel" cx="{right}" cy="{wheel}" r="5"/>'
        "</g>"
    ).format(
        title=title,
        status=status,
        body=body,
        middle=middle,
        first=top + _HEIGHT / 2 + (-2 if below else 4),
        second=top + _HEIGHT / 2 + 13,
        name=name if len(name) <= _LONGEST + 1 else f"{name[:_LONGEST]}…",
        below=below,
        left=left + 20,
        right=right - 20,
        wheel=bottom + 4,
    )
