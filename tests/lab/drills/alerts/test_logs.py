"""Which entries a log-based metric counts, by the filters of the catalogue itself."""

from __future__ import annotations

import pytest

from facts.signals.catalogue import catalogue
from facts.signals.logs import fallbacks, gpu_faults
from facts.signals.model import Watched
from lab.drills.alerts.logs import entry_of, entry_of_fallback, labels_of, matches
from lab.results.timeline import Lane, Moment
from tests.facts.signals.fleets import EVERYTHING
from tests.support.settings import make_settings

SETTINGS = make_settings()
WATCHED = Watched(
    server="s", namespace="n", stack="t", spot=True, spending="pause", cluster="fleet", zones=(*SETTINGS.zones, "other")
)


@pytest.mark.parametrize(
    ("lane", "subject", "text", "cluster", "counted"),
    [
        ("capacity", "scale.up.error.out.of.resources", "1 pod(s) wait", "fleet", {"t_scale_up_failures"}),
        ("capacity", "scale.up.error.quota.exceeded", "1 pod(s) wait", "fleet", {"t_scale_up_failures"}),
        ("capacity", "scale.up.error.out.of.resources", "1 pod(s) wait", "another", set()),
        ("node", "gk3-fleet-nap-1", "preempted: 30 s notice", "fleet", {"t_spot_preemptions"}),
        ("node", "vm-of-somebody", "preempted: 30 s notice", "fleet", set()),
    ],
)
def test_an_entry_is_counted_by_the_signals_that_are_for_it(
    lane: Lane, subject: str, text: str, cluster: str, counted: set[str]
) -> None:
    entry = entry_of(Moment(lane=lane, subject=subject, text=text, at_seconds=0.0), SETTINGS, cluster)
    assert entry is not None
    assert {log.name for log in catalogue(WATCHED).logs if matches(log.filter, entry)} == counted


@pytest.mark.parametrize(("lane", "subject", "text"), [("capacity", "no.scale.up.nap", "x"), ("node", "a", "Ready")])
def test_other_moments_leave_no_entry(lane: Lane, subject: str, text: str) -> None:
    assert entry_of(Moment(lane=lane, subject=subject, text=text, at_seconds=0.0), SETTINGS, "fleet") is None


def test_a_clause_that_is_not_read_is_refused() -> None:
    with pytest.raises(ValueError, match="severity>=ERROR"):
        matches("severity>=ERROR", {"logName": ""})


def test_kedas_fallback_is_counted_for_its_own_server_alone() -> None:
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
        lab = entry_of_fallback(name, make_settings(namespace=EVERYTHING.namespace), EVERYTHING.cluster)
        assert lab["textPayload"] == entry["textPayload"]
        assert matches(signal.filter, lab) is counts


def test_a_label_from_what_is_no_plain_path_is_refused() -> None:
    with pytest.raises(ValueError, match="compute"):
        labels_of(gpu_faults(EVERYTHING), {"labels": {"compute.googleapis.com/resource_name": "a"}})
