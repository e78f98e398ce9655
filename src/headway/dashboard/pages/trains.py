"""Trains: keys whose jobs run one after another, each drawn as one."""

from __future__ import annotations

from headway.dashboard.action_table import ACTIONS
from headway.dashboard.drawn.train import train_picture
from headway.dashboard.table import Page, Pages
from headway.dashboard.visit import Visit

pages = Pages()


@pages.get("/trains")
async def list_trains(visit: Visit) -> Page:
    blocked = visit.query.get("blocked")
    query = {"blocked": "true" if blocked else None, "cursor": visit.query.get("cursor")}
    trains = await visit.ask("GET", "/trains", query=query)
    return Page("trains.html", {"trains": trains, "blocked": bool(blocked), "actions": ACTIONS})


@pages.get("/trains/{key}")
async def show_train(visit: Visit, key: str) -> Page:
    found = await visit.ask("GET", "/trains/{key}", key=key)
    train, cars = found["train"], found["cars"]
    values = {"train": train, "cars": cars, "picture": train_picture(train, cars), "actions": ACTIONS}
    return Page("train.html", values)
