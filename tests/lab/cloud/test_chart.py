"""The project's charts, rendered by Helm with this program's values: real programs, hence slow."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.cloud.chart import MODULE, REGISTRY, Charts, Release
from lab.control_plane import build
from lab.control_plane.api import Manifest
from lab.control_plane.modules import pinned
from lab.results.result import RehearsalError
from tests.lab.shapes import SHAPES, STACKS, recorded
from tests.support.settings import make_settings
from workloads import names
from workloads.gateway.values import CHART, chart_values

POOL = {"modelServers": {"matchLabels": {"app": "qwen35-server"}}}


def release(values: dict[str, Any] | None = None, name: str = "qwen35-pool", **inputs: Any) -> Release:
    given = {
        "chart": CHART,
        "version": pinned()[MODULE],
        "values": {"inferencePool": POOL, **(values or {})},
        **inputs,
    }
    return Release(name=name, namespace="vllm", inputs=given)


def by_kind(objects: list[Manifest], kind: str) -> list[Manifest]:
    return [one for one in objects if one["kind"] == kind]


@pytest.mark.slow
def test_the_programs_own_values_make_one_picker_its_rights_and_the_pool(charts: Charts) -> None:
    settings = make_settings("gateway")
    objects = charts.objects(release(chart_values(settings.server.name, settings.gateway.epp)))
    assert [(one["kind"], one["metadata"]["name"]) for one in objects] == [
        ("ServiceAccount", "qwen35-pool-epp"),
        ("ConfigMap", "qwen35-pool-epp"),
        ("Role", "qwen35-pool-epp-non-sa"),
        ("Role", "qwen35-pool-epp-sa"),
        ("RoleBinding", "qwen35-pool-epp-non-sa"),
        ("RoleBinding", "qwen35-pool-epp-sa"),
        ("Service", "qwen35-pool-epp"),
        ("Deployment", "qwen35-pool-epp"),
        ("InferencePool", "qwen35-pool"),
    ]
    assert {one["metadata"]["namespace"] for one in objects} == {"vllm"}
    (deployment,) = by_kind(objects, "Deployment")
    assert deployment["metadata"]["labels"]["app.kubernetes.io/version"] == "v1.4.0"
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert names.epp_selector("qwen35-pool").items() <= labels.items()
    (pod,) = deployment["spec"]["template"]["spec"]["containers"]
    assert pod["image"].endswith("/epp:v1.4.0")
    assert pod["resources"]["limits"] == pod["resources"]["requests"]
    assert "--metrics-endpoint-auth=false" in pod["args"]
    (pool,) = by_kind(objects, "InferencePool")
    assert pool["spec"] == {
        "targetPorts": [{"number": 8000}],
        "selector": {"matchLabels": {"app": "qwen35-server"}},
        "endpointPickerRef": {"name": "qwen35-pool-epp", "port": {"number": 9002}, "failureMode": "FailOpen"},
    }


@pytest.mark.slow
def test_two_pickers_elect_a_leader_and_the_standby_is_not_ready_by_design(charts: Charts) -> None:
    (deployment,) = by_kind(charts.objects(release({"inferenceExtension": {"replicas": 2}})), "Deployment")
    (pod,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--ha-enable-leader-election" in pod["args"]
    assert pod["readinessProbe"]["grpc"]["service"] == "readiness"
    assert pod["livenessProbe"]["grpc"]["service"] == "liveness"


@pytest.mark.slow
def test_a_long_release_name_is_cut_where_the_program_expects_it(charts: Charts) -> None:
    long = "a" * 53  # Helm takes no longer one
    (service,) = by_kind(charts.objects(release(name=long)), "Service")
    assert service["metadata"]["name"] == names.epp_name(long)


def paths(values: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in values.items():
        path = f"{above}{key}"
        yield path
        if isinstance(value, Mapping):
            yield from paths(value, f"{path}.")


@pytest.mark.slow
def test_the_chart_reads_every_value_that_the_program_sets(charts: Charts) -> None:
    """Helm takes a key that no template reads without a word."""
    files = (charts.modules[MODULE] / "config" / "charts").glob("*/templates/*")
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    read = set(re.findall(r"\.Values\.([\w.]+)", text))
    for name in (*STACKS, *SHAPES):
        for resource in recorded(name).resources:
            if resource.type == "kubernetes:helm.sh/v3:Release" and str(resource.inputs["chart"]).startswith(REGISTRY):
                for path in paths(resource.inputs["values"]):
                    above = {path.rsplit(".", depth)[0] for depth in range(path.count(".") + 1)}
                    assert above & read or any(known.startswith(f"{path}.") for known in read), path


@pytest.mark.slow
def test_what_the_chart_itself_refuses_is_told_with_the_release(charts: Charts) -> None:
    with pytest.raises(RehearsalError, match=r"^Helm release qwen35-pool: .*matchLabels is required"):
        charts.objects(release({"inferencePool": {"modelServers": {"matchLabels": {}}}}))


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Charts:
    """A module with one empty chart, and no Helm."""
    (tmp_path / "module" / "config" / "charts" / "inferencepool").mkdir(parents=True)
    (tmp_path / "module" / "config" / "charts" / "inferencepool" / "Chart.yaml").touch()
    monkeypatch.setattr(build, "helm", lambda _: Path("/nowhere/helm"))
    return Charts(modules={MODULE: tmp_path / "module"}, progress=lambda _: None)


@pytest.mark.parametrize(
    "change", [{"version": "v1.5.0"}, {"chart": "oci://example.org/other"}, {"chart": f"{CHART}s"}]
)
def test_a_chart_or_version_that_is_not_at_hand_is_not_guessed_at(pretended: Charts, change: dict[str, str]) -> None:
    with pytest.raises(RehearsalError, match=r"go/custom-resources$"):
        pretended.objects(release(**change))


def test_a_helm_that_does_not_run_is_told_in_words(pretended: Charts) -> None:
    with pytest.raises(RehearsalError, match=r"^Helm release qwen35-pool: helm package "):
        pretended.objects(release())


def test_helm_is_not_led_by_a_persons_own_settings(pretended: Charts, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def run(command: list[Any], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        seen.append(env)
        return subprocess.CompletedProcess(command, 0, stdout="", stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("HELM_DRIVER", "sql")
    monkeypatch.setenv("KUBECONFIG", "/nowhere/kubeconfig")
    assert pretended.objects(release()) == []
    assert [sorted(key for key in env if key.startswith(("HELM_", "KUBE"))) for env in seen] == [
        ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"]
    ] * 2
