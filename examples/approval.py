"""An approval flow: jobs review a document in parallel, then people decide; all must say yes, and one no ends it.

Run it with: python examples/approval.py [database URL]
"""

from __future__ import annotations

import logging
import sys
import tempfile

import msgspec

from headway import Await, Context, Done, Headway, Machine, Next, Spawn, Stop, step

app = Headway(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{tempfile.mkdtemp()}/approval.db")


@app.job
def review(document: str, rule: str) -> str:
    if rule == "spelling" and "teh" in document:
        raise ValueError("teh")
    return f"{rule} is fine"


@app.machine
class Approval(Machine):
    class State(msgspec.Struct):
        document: str
        approvers: list[str]
        yes: list[str] = []

    @step
    def start(self, ctx: Context) -> Spawn:
        rules = ("spelling", "style", "law")
        checks = [review.using(max_attempts=1).build(document=ctx.state.document, rule=rule) for rule in rules]
        return Spawn(checks, then=self.reviewed)  # enqueued with this step's outcome, or not at all

    @step
    def reviewed(self, ctx: Context) -> Next | Stop:
        failed = [child for child in ctx.children if not child.succeeded]
        if failed:
            return Stop(f"{len(failed)} of {len(ctx.children)} reviews failed")
        return Next(self.decide)

    @step
    def decide(self, ctx: Context) -> Await | Done | Stop:
        # Await without `then` repeats this step until everybody has said yes
        for signal in ctx.signals:
            if not signal.payload["ok"]:
                return Stop(f"{signal.payload['by']} said no")
            ctx.state.yes.append(signal.payload["by"])
        if set(ctx.state.yes) >= set(ctx.state.approvers):
            return Done(f"approved by {', '.join(ctx.state.yes)}")
        return Await("decision", timeout="14d")


def main() -> None:
    logging.getLogger("headway").setLevel(logging.CRITICAL)  # one review fails on purpose
    documents = {"good": "the plan", "bad": "teh plan", "disputed": "the other plan"}
    flows = {name: Approval.enqueue(document=text, approvers=["Ada", "Grace"]) for name, text in documents.items()}
    app.signal(flows["good"].id, "decision", {"by": "Ada", "ok": True})  # early, so the inbox keeps it
    app.run(until_idle=True)
    for name, flow in flows.items():
        print(
            f"{name}: {app.get(flow.id).status}, {', '.join(child.status for child in app.children(flow.id, fence=1))}"
        )

    app.signal_many(
        [
            app.build_signal(flows["good"].id, "decision", {"by": "Grace", "ok": True}),
            app.build_signal(flows["disputed"].id, "decision", {"by": "Grace", "ok": False}),
        ]
    )
    app.run(until_idle=True)
    for name, flow in flows.items():
        outcome = app.result(flow.id)
        print(f"{name}: {outcome.status}, {outcome.value or outcome.error}")
    app.close()


if __name__ == "__main__":
    main()
