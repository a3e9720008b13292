"""The catalogue of one fleet: recordings, alerts, log-based metrics and panels."""

from __future__ import annotations

from facts.signals.alerts import alerts
from facts.signals.logs import logs
from facts.signals.model import Alert as Alert
from facts.signals.model import Catalogue as Catalogue
from facts.signals.model import LogSignal as LogSignal
from facts.signals.model import Panel as Panel
from facts.signals.model import Query as Query
from facts.signals.model import Recording as Recording
from facts.signals.model import Watched as Watched
from facts.signals.panels import panels
from facts.signals.recordings import recordings


def catalogue(watched: Watched) -> Catalogue:
    """All signals of that fleet."""
    return Catalogue(
        watched=watched,
        recordings=tuple(recordings(watched)),
        alerts=tuple(alerts(watched)),
        logs=tuple(logs(watched)),
        panels=tuple(panels(watched)),
    )
