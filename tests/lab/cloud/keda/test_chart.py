"""KEDA's release in a rehearsal."""

from __future__ import annotations

import pytest

from facts.names import KEDA_VERSION
from lab.cloud.keda.chart import is_keda, objects
from lab.control_plane.custom_resources.definitions import KEDA
from lab.control_plane.modules import module_folders, pinned
from lab.results.result import RehearsalError
from workloads.keda.values import CHART, METRICS_SERVER, OPERATOR, REPOSITORY, WEBHOOKS, chart_values

RELEASE = {
    "chart": CHART,
    "version": KEDA_VERSION,
    "repositoryOpts": {"repo": REPOSITORY},
    "values": chart_values(),
}


def test_it_is_known_by_chart_and_repository_and_played_in_one_version() -> None:
    assert is_keda(RELEASE)
    assert not is_keda({**RELEASE, "repositoryOpts": {"repo": "elsewhere"}})
    assert pinned()[KEDA] == f"v{KEDA_VERSION}"
    with pytest.raises(RehearsalError, match=r"not 2\.19\.0"):
        objects({**RELEASE, "version": "2.19.0"}, {})


@pytest.mark.slow
def test_its_pods_have_the_charts_names_and_this_programs_amounts() -> None:
    made = objects(RELEASE, module_folders(print))
    pods = {one["spec"]["template"]["metadata"]["labels"]["app"]: one for one in made if one["kind"] == "Deployment"}
    assert pods.keys() == {OPERATOR, METRICS_SERVER, WEBHOOKS}
    for one in pods.values():
        (container,) = one["spec"]["template"]["spec"]["containers"]
        assert container["resources"]["limits"] == {"cpu": "250m", "memory": "512Mi"}
        assert container["image"].endswith(f":{KEDA_VERSION}")
    assert not {"APIService", "ValidatingWebhookConfiguration"} & {one["kind"] for one in made}
    (role,) = (one for one in made if one["kind"] == "ClusterRole" and one["metadata"]["name"] == OPERATOR)
    (pods,) = (rule for rule in role["rules"] if "pods" in rule["resources"])  # for the trigger kubernetes-workload
    assert {"get", "list", "watch"} <= set(pods["verbs"])
