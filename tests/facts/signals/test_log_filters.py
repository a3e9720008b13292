"""Which entries a log-based metric counts, by the filters of the catalogue itself."""

from __future__ import annotations

from typing import Any

from facts.signals.catalogue import catalogue
from facts.signals.logs import fallbacks
from facts.signals.model import Watched
from tests.facts.signals.fleets import EVERYTHING
from tests.facts.signals.log_filters import Entry, matches
from tests.support.rows import each_row

WATCHED = Watched(server="s", namespace="n", stack="t", spending="pause", cluster="fleet")


def no_scale_up(message: str, cluster: str) -> Entry:
    """Source: GKE docs, "View cluster autoscaler events"."""
    return {
        "logName": "projects/p/logs/container.googleapis.com%2Fcluster-autoscaler-visibility",
        "resource": {"type": "k8s_cluster", "labels": {"cluster_name": cluster}},
        "jsonPayload": {"resultInfo": {"results": [{"errorMsg": {"messageId": message}}]}},
    }


@each_row(
    "entry, counted",
    [
        (no_scale_up("scale.up.error.out.of.resources", "fleet"), {"t_scale_up_failures"}),
        (no_scale_up("scale.up.error.quota.exceeded", "fleet"), {"t_scale_up_failures"}),
        (no_scale_up("scale.up.error.out.of.resources", "another"), set()),
        (no_scale_up("no.scale.up.nap", "fleet"), set()),
    ],
)
def test_an_entry_is_counted_by_the_signals_that_are_for_it(entry: dict[str, Any], counted: set[str]) -> None:
    assert {log.name for log in catalogue(WATCHED).logs if matches(log.filter, entry)} == counted


def test_kedas_fallback_is_counted_for_its_own_server_alone() -> None:
    """Source: keda 2.20.2, pkg/fallback/fallback.go, doFallback."""
    signal = fallbacks(EVERYTHING)
    for name, counts in ((EVERYTHING.server, True), (f"{EVERYTHING.server}-canary", False)):
        entry = {
            "logName": "projects/p/logs/stderr",
            "resource": {
                "type": "k8s_container",
                "labels": {"cluster_name": EVERYTHING.cluster, "namespace_name": "keda"},
            },
            "textPayload": "INFO\tfallback\tSuppressing error, using fallback metrics\t"
            f'{{"scaledObject.Namespace": "{EVERYTHING.namespace}", "scaledObject.Name": "{name}"}}',
        }
        assert matches(signal.filter, entry) is counts
