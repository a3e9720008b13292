"""Check the stack's alerts during a drill: expected alerts fire, and no other alert pages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lab.drills.alerts.watch import AlertWatch

if TYPE_CHECKING:
    from lab.drills.alerts.evaluate import Fired
    from lab.drills.drill import Drill, Proof
    from lab.stage.stage import Stage


@contextlib.contextmanager
def alerts_during(stage: Stage, drill: Drill, proof: Proof) -> Iterator[None]:
    """Watch alerts while the block runs and check them, if the drill expects any and the stack is monitored."""
    if drill.alerts is None or not stage.settings.monitoring.enabled:
        yield
        return
    with AlertWatch(stage) as watch:
        proof.watch = watch
        try:
            yield
        finally:
            proof.watch = None
        fired = watch.fired()
        stage.timeline.extend(watch.moments(fired))
    first: dict[str, Fired] = {}
    for one in sorted(fired, key=lambda one: one.firing_at):
        first.setdefault(one.alert, one)
    seen = {
        name: f"{name} ({value.labels['severity']}) after {value.firing_at / 60:.0f} min"
        for name, value in first.items()
    }
    known = {alert.name for alert in watch.catalogue.alerts}
    for name in drill.alerts:
        if name in known:
            proof.check(f"the alert {name} fires", name in first, seen.get(name, "it did not fire"))
    pages = [name for name, value in first.items() if value.labels["severity"] == "page"]
    wrong = [seen[name] for name in pages if name not in (*drill.alerts, *drill.may_page)]
    proof.check("no other alert pages", not wrong, ", ".join(wrong or seen.values()) or "no alert")
