"""llm-d's endpoint picker: its objects, beside those of the article's, and what its release knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from facts.pickers import LLM_D, SERIES
from fleet.preview.record.recorder import Mode
from policy.objects import selects
from settings.derived.traffic import traffic
from tests.support.recorded import manifest, needs, objects
from tests.support.rows import each_row
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.test_gateway import record
from workloads.gateway import picker

POOL = "qwen35-pool-llm-d"
EPP = f"{POOL}-epp"
RELEASED: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("llm_d_router.yaml").read_text(encoding="utf-8")
)
"""What the program of llm-d-router v0.10.0 itself says."""


def made(mode: Mode = "known", *, server: dict[str, Any] | None = None, **epp: Any) -> dict[str, Any]:
    recording = record(mode, gateway={"epp": {"release": LLM_D, **epp}}, server={"replicas": 1, **(server or {})})
    return {key: manifest(one) for key, one in objects(recording).items()}


def pod(**epp: Any) -> dict[str, Any]:
    template: dict[str, Any] = made(**epp)[f"Deployment/{EPP}"]["spec"]["template"]
    return template


@pytest.mark.parametrize("mode", ["preview", "known"])
@each_row("epp", [{}, {"replicas": 3}])
def test_every_object_would_be_accepted(mode: Mode, epp: dict[str, Any]) -> None:
    found = {key: problems(one) for key, one in made(mode, **epp).items()}
    assert found == {key: [] for key in found}


def test_there_is_no_chart_and_the_pool_has_a_name_that_the_articles_has_not() -> None:
    recording = record(gateway={"epp": {"release": LLM_D}})
    assert not [one for one in recording.resources if one.type.endswith(":Release")]
    theirs = {one.inputs["name"] for one in record().resources if one.type.endswith(":Release")}
    kinds = {key.partition("/")[0] for key in made() if key.endswith((POOL, EPP)) or f"/{EPP}-" in key}
    assert theirs.isdisjoint({POOL, EPP})
    assert kinds >= {"InferencePool", "Deployment", "Service", "ServiceAccount", "Role", "RoleBinding", "ConfigMap"}


def test_the_route_keeps_its_name_and_leads_to_the_new_pool_once_its_picker_is_ready() -> None:
    recording = record(gateway={"epp": {"release": LLM_D}})
    route = objects(recording)["HTTPRoute/qwen35-pool"]
    assert manifest(route)["spec"]["rules"][0]["backendRefs"][0]["name"] == POOL
    assert f"Deployment/{EPP}" in needs(recording, route)
    for kind in ("HealthCheckPolicy", "GCPBackendPolicy"):
        assert f"InferencePool/{POOL}" in needs(recording, objects(recording)[f"{kind}/{POOL}"])


def test_the_pool_selects_the_servers_and_names_the_pickers_service() -> None:
    spec = made(server={"rankPorts": True})[f"InferencePool/{POOL}"]["spec"]
    assert [one["number"] for one in spec["targetPorts"]] == list(range(8000, 8008))
    assert spec["selector"] == {"matchLabels": {"app": "qwen35-server"}}
    assert spec["endpointPickerRef"] == {"name": EPP, "port": {"number": 9002}, "failureMode": "FailOpen"}
    assert [one["port"] for one in made()[f"Service/{EPP}"]["spec"]["ports"]] == [9002]


def test_a_picker_is_no_server_and_its_own_objects_select_it() -> None:
    labels = pod()["metadata"]["labels"]
    objects_ = made()
    assert not selects(objects_["Service/qwen35-server"]["spec"]["selector"], labels)
    assert not selects(objects_[f"InferencePool/{POOL}"]["spec"]["selector"], labels)
    assert selects(objects_[f"Service/{EPP}"]["spec"]["selector"], labels)
    assert selects(objects_[f"Deployment/{EPP}"]["spec"]["selector"], labels)


def test_its_pods_are_restricted_and_so_is_their_namespace() -> None:
    levels = {
        release: traffic(make_settings(gateway={"enabled": True, "epp": {"release": release}})).pod_security
        for release in SERIES
    }
    assert list(levels.values()) == ["baseline", "restricted"]
    spec = pod()["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["resources"]["limits"] == container["resources"]["requests"]
    assert "@sha256:" in container["image"]


def test_a_standby_is_elected_on_another_node_and_not_waited_for() -> None:
    assert "topologySpreadConstraints" not in pod()["spec"]
    alone, spare = (made(replicas=count)[f"Deployment/{EPP}"] for count in (1, 2))
    flag = "--ha-enable-leader-election"
    for one, elects in ((alone, False), (spare, True)):
        assert (flag in one["spec"]["template"]["spec"]["containers"][0]["args"]) is elects
        assert ("pulumi.com/skipAwait" in one["metadata"].get("annotations", {})) is elects
    assert spare["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    groups = [{group for rule in picker.rights(count) for group in rule["api_groups"]} for count in (1, 2)]
    assert groups[1] - groups[0] == {"coordination.k8s.io"}


def test_the_release_knows_every_option_plugin_and_series_that_is_used() -> None:
    """The picker ends at an unknown option or plugin; an unknown series would be a silent alert."""
    used = {one.partition("=")[0] for one in picker.options(POOL, 2)}
    config = yaml.safe_load(picker.CONFIG)
    plugins = [one["type"] for one in config["plugins"]]
    assert used <= set(RELEASED["options"])
    assert set(plugins) <= set(RELEASED["plugins"])
    assert [one["pluginRef"] for one in config["schedulingProfiles"][0]["plugins"]] == plugins
    assert set(SERIES[LLM_D].every) <= set(RELEASED["series"])
