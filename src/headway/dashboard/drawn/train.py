"""A train as a train: the locomotive, its cars, and the signal that stops it."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from headway.model.train import Train

_CAR, _GAP, _HEIGHT, _TOP = 64, 10, 34, 22
_MOST = 14


def train_picture(train: Train, cars: list[Any]) -> Markup:
    """The first cars, the locomotive on the right: it goes that way."""
    shown = cars[:_MOST]
    more = train.length - len(shown)
    places = len(shown) + (1 if more > 0 else 0)
    width = max(1, places) * (_CAR + _GAP) + 60
    ground = _TOP + _HEIGHT + 9
    parts = [Markup('<line class="rail" x1="0" x2="{0}" y1="{1}" y2="{1}"/>').format(width, ground)]
    for index, car in enumerate(shown):
        left = width - 50 - (index + 1) * (_CAR + _GAP)
        parts.append(_car(left, car, is_locomotive=index == 0 and car["status"] != "held"))
    if more > 0:
        left = width - 50 - places * (_CAR + _GAP)
        parts.append(
            Markup('<text x="{}" y="{}" text-anchor="middle">{} more</text>').format(
                left + _CAR / 2, _TOP + _HEIGHT / 2 + 4, f"{more:,}"
            )
        )
    if train.hold is not None:
        at = width - 34
        parts.append(
            Markup(
                '<line class="rail" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/><rect class="signal" x="{3}" y="{4}" '
                'width="18" height="18" rx="3"><title>on hold</title></rect>'
            ).format(at, _TOP, ground, at - 9, _TOP - 14)
        )
    state = "on hold" if train.hold is not None else "moving" if train.head_status == "running" else "standing"
    label = f"train {train.train}, {train.length:,} cars, {state}"
    return Markup('<svg class="train" viewBox="0 0 {0} {1}" width="{0}" role="img" aria-label="{2}">{3}</svg>').format(
        width, ground + 8, label, Markup("").join(parts)
    )


def _car(left: float, car: Any, *, is_locomotive: bool) -> Markup:
    name = car["kind"] if len(car["kind"]) < 10 else f"{car['kind'][:8]}…"
    radius = 12 if is_locomotive else 4
    return Markup(
        '<g><title>{title}</title><rect class="car {status}" x="{left}" y="{top}" width="{width}" height="{height}" '
        'rx="{radius}"/><text x="{middle}" y="{text}" text-anchor="middle">{name}</text>'
        '<circle class="wheel" cx="{first}" cy="{wheel}" r="4.5"/>'
        '<circle class="wheel" cx="{last}" cy="{wheel}" r="4.5"/></g>'
    ).format(
        title=f"{car['kind']} {car['id']}: {car['status']}",
        status=car["status"],
        left=left,
        top=_TOP,
        width=_CAR,
        height=_HEIGHT,
        radius=radius,
        middle=left + _CAR / 2,
        text=_TOP + _HEIGHT / 2 + 4,
        name=name,
        first=left + 14,
        last=left + _CAR - 14,
        wheel=_TOP + _HEIGHT + 4,
    )
