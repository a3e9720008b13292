"""The catalogue of one fleet: recordings, alerts, log-based metrics and panels."""

from __future__ import annotations

from settings.signals.alerts import alerts
from settings.signals.logs import logs
from settings.signals.model import Alert as Alert
from settings.signals.model import Catalogue as Catalogue
from settings.signals.model import LogSignal as LogSignal
from settings.signals.model import Panel as Panel
from settings.signals.model import Query as Query
from settings.signals.model import Recording as Recording
from settings.signals.model import Watched as Watched
from settings.signals.panels import panels
from settings.signals.recordings import recordings


def catalogue(watched: Watched) -> Catalogue:
    """All signals of that fleet."""
    return Catalogue(
        watched=watched,
        recordings=tuple(recordings(watched)),
        alerts=tuple(alerts(watched)),
        logs=tuple(logs(watched)),
        panels=tuple(panels(watched)),
    )
