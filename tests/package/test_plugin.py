"""The package as the engine runs it, in the repository and assembled: schema, children, refusals, over gRPC."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from fleet.preview.record.monitor import RecordingMonitor
from fleet.preview.record.recorder import Mode, record
from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.values import UNKNOWN, paths_of_unknowns
from tests.inventory import ROOT
from tests.package.plugin import PROJECT, PROVIDER, STACK, Plugin, refusals, running
from tests.package.test_schema import PROGRAMS
from tests.settings.checks.test_model import LLAMA

pytestmark = pytest.mark.slow

MINE = {"kubernetes": PROVIDER}
ZONES = ["europe-west4-b"]
FLEET: dict[str, Any] = {
    "project": "my-project",
    "zones": ZONES,
    "capacity": "ladder",
    "machine": "a4-highgpu-8g",
    "replicas": 2,
}
WEIGHTS: dict[str, Any] = {"zones": ZONES, "namespace": "models", "model": "Qwen/Qwen3.5-27B-FP8"}
SERVER: dict[str, Any] = {
    "zones": ZONES,
    "namespace": "models",
    "capacity": "spot",
    "machine": "a4-highgpu-8g",
    "weightsClaim": "claim",
}
LADDER: dict[str, Any] = {"zones": ZONES, "namespace": "models", "machine": "a4-highgpu-8g"}
CLAIM = "urn:pulumi:dev::vllm-fleet::kubernetes:core/v1:PersistentVolumeClaim::claim"


@pytest.fixture(scope="module", params=["package", "assembled"])
def plugin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plugin]:
    folder = ROOT / "package"
    if request.param == "assembled":
        folder = tmp_path_factory.mktemp("published") / "package"
        subprocess.run(["make", "--silent", "component-package", f"PACKAGE={folder}"], cwd=ROOT, check=True)
        assert (folder / "requirements.txt").read_text() == (ROOT / "requirements.txt").read_text()
    consumer = tmp_path_factory.mktemp("consumer")
    with running(folder, consumer) as plugin:
        yield plugin
    assert "Traceback" not in (consumer / "stderr").read_text()  # the engine would show it


def by_name(resources: Any, prefix: str) -> dict[tuple[str, str], RecordedResource]:
    return {(one.type, one.name.removeprefix(prefix)): one for one in resources}


def the_programs(mode: Mode) -> dict[tuple[str, str], RecordedResource]:
    """What the program makes of a stack file that says the same as `FLEET`; of a stack that is called as the fleet's is."""
    sections = {
        "zones": ZONES,
        "capacity": {"mode": "ladder"},
        "server": {"replicas": 2},
        "labels": {"team": "inference"},
    }
    config = {"gcp:project": "my-project", "gcp:region": "europe-west4"}
    config |= {f"vllm-fleet:{key}": json.dumps(value) for key, value in sections.items()}
    recording = record(ROOT, project=PROJECT, stack=f"{STACK}-fleet", config=config, mode=mode)
    of_its_own = {"pulumi:pulumi:Stack", "gcp:monitoring/dashboard:Dashboard", "vllm-fleet:infra:Dashboard"}
    shared = [one for one in recording.resources if one.type not in of_its_own]
    left_out = {one.urn for one in recording.resources} - {one.urn for one in shared}
    return by_name(
        (replace(one, dependencies=tuple(sorted({*one.dependencies} - left_out))) for one in shared),
        "",
    )


@pytest.mark.parametrize("mode", ["known", "preview"])
def test_a_fleet_is_made_of_the_programs_own_components_with_the_same_inputs(plugin: Plugin, mode: Mode) -> None:
    _, monitor, _ = plugin.construct("VllmFleet", "fleet", {**FLEET, "labels": {"team": "inference"}}, mode=mode)
    made = by_name((one for one in monitor.resources.values() if one.name != "fleet"), "fleet-")
    program = the_programs(mode)
    assert made.keys() == program.keys()
    for key, one in made.items():
        if one.type != "pulumi:providers:kubernetes":  # the recorder makes a cluster's id of its name in Pulumi
            assert dict(one.inputs) == dict(program[key].inputs), key
        assert (one.protect, one.custom_timeouts) == (program[key].protect, program[key].custom_timeouts), key
        assert names(one.dependencies, "fleet-") == names(program[key].dependencies, ""), key
    assert [one for one in monitor.diagnostics if one.severity == "error"] == []


def names(urns: tuple[str, ...], prefix: str) -> set[str]:
    return {urn.rpartition("::")[2].removeprefix(prefix) for urn in urns}


def test_a_fleets_outputs_are_what_a_consumer_needs(plugin: Plugin) -> None:
    outputs, _, answer = plugin.construct("VllmFleet", "fleet", FLEET)
    assert outputs.keys() == {"endpoint", "model", "namespace", "clusterName", "kubeconfig"}
    assert outputs["endpoint"] == "http://qwen35-server.vllm-dev-fleet.svc.cluster.local:8000"
    assert str(outputs["kubeconfig"]) == "[secret]"
    assert answer.urn.endswith("vllm-fleet:index:VllmFleet::fleet")


def test_two_fleets_share_no_name(plugin: Plugin) -> None:
    both = [plugin.construct("VllmFleet", name, FLEET)[1] for name in ("one", "two")]
    assert not both[0].resources.keys() & both[1].resources.keys()
    named = [
        {
            str(one.inputs["name"])
            for one in each.resources.values()
            if one.type.startswith("gcp:") and "name" in one.inputs
        }
        for each in both
    ]
    assert named[0]
    assert not named[0] & named[1]


def parts(plugin: Plugin) -> list[RecordingMonitor]:
    made = (
        ("ModelWeights", WEIGHTS),
        ("VllmServer", SERVER),
        ("CapacityLadder", LADDER),
    )
    return [plugin.construct(component, "part", given, providers=MINE)[1] for component, given in made]


def test_every_object_of_a_part_goes_to_the_callers_cluster(plugin: Plugin) -> None:
    for monitor in parts(plugin):
        custom = [one for one in monitor.resources.values() if one.custom]
        assert custom
        assert {one.provider for one in custom} == {PROVIDER}
        assert all(one.type.startswith("kubernetes:") for one in custom)
        assert {urn: paths_of_unknowns(dict(one.inputs)) for urn, one in monitor.resources.items()} == {
            urn: [] for urn in monitor.resources
        }


@pytest.mark.parametrize("component", ["ModelWeights", "VllmServer", "CapacityLadder"])
def test_a_part_without_the_callers_provider_is_refused(plugin: Plugin, component: str) -> None:
    given = {"ModelWeights": WEIGHTS, "VllmServer": SERVER}.get(component, LADDER)
    with pytest.raises(grpc.RpcError) as refused:
        plugin.construct(component, "part", given)
    assert f"{component} needs your cluster's Kubernetes provider" in refused.value.details()


def test_servers_wait_for_the_weights_whose_claim_they_mount(plugin: Plugin) -> None:
    outputs, _, answer = plugin.construct("ModelWeights", "weights", WEIGHTS, mode="preview", providers=MINE)
    assert outputs["modelPath"] == "/weights/Qwen/Qwen3.5-27B-FP8"
    (volume,) = answer.stateDependencies["claim"].urns
    assert volume.endswith(":PersistentVolumeClaim::weights-weights-reader")
    given = {**SERVER, "weightsClaim": outputs["claim"]}
    _, monitor, _ = plugin.construct(
        "VllmServer", "server", given, providers=MINE, dependencies={"weightsClaim": [volume]}
    )
    (deployment,) = [one for one in monitor.resources.values() if one.type.endswith(":Deployment")]
    assert volume in deployment.dependencies
    pod = deployment.inputs["spec"]["template"]["spec"]
    assert {"claimName": outputs["claim"], "readOnly": True} in [
        one.get("persistentVolumeClaim") for one in pod["volumes"]
    ]
    assert outputs["modelPath"] in pod["containers"][0]["args"]


def test_a_server_on_a_ladder_selects_the_class_that_the_ladder_makes(plugin: Plugin) -> None:
    outputs, _, _ = plugin.construct("CapacityLadder", "l", LADDER, providers=MINE)
    _, monitor, _ = plugin.construct("VllmServer", "s", {**SERVER, "capacity": "ladder"}, providers=MINE)
    (deployment,) = [one for one in monitor.resources.values() if one.type.endswith(":Deployment")]
    selector = deployment.inputs["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"cloud.google.com/compute-class": outputs["className"]}


@pytest.mark.parametrize(("replicas", "returns"), [({}, False), ({"replicas": 1}, False), ({"replicas": 2}, True)])
def test_a_ladders_replicas_return_where_others_serve_meanwhile(
    plugin: Plugin, replicas: dict[str, int], returns: bool
) -> None:
    _, monitor, _ = plugin.construct("CapacityLadder", "l", {**LADDER, **replicas}, providers=MINE)
    (made,) = [one for one in monitor.resources.values() if one.type.endswith(":ComputeClass")]
    assert ("activeMigration" in made.inputs["spec"]) == returns


@pytest.mark.parametrize("path", PROGRAMS)
def test_the_components_take_the_yaml_programs_inputs(plugin: Plugin, path: str) -> None:
    program = PROGRAMS[path]
    defaults = {
        key: one.get("default", "my-project") for key, one in program.get("template", {}).get("config", {}).items()
    }

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(one) for one in value]
        found = re.fullmatch(r"\$\{(\w+)(\.\w+)?\}", value) if isinstance(value, str) else None
        text = defaults.get(found[1], "of-another-resource") if found else value
        return int(text) if found and program["config"].get(found[1], {}).get("type") == "integer" else text

    for name, one in program["resources"].items():
        package, _, component = one["type"].partition(":")
        if package == "vllm-fleet":
            given = {key: filled(value) for key, value in one["properties"].items()}
            plugin.construct(component, name, given, providers=MINE)


def test_the_engine_gets_the_reviewed_schema(plugin: Plugin) -> None:
    reviewed = json.loads((ROOT / "package" / "schema.json").read_text(encoding="utf-8"))
    assert json.loads(plugin.schema()) == reviewed


@pytest.mark.parametrize(
    ("wrong", "paths", "words"),
    [
        ({"replicas": 2000}, {"replicas"}, "<= 1000"),
        ({"replicas": 1.5}, {"replicas"}, "whole number"),
        ({"replicas": "two"}, {"replicas"}, "whole number"),
        ({"replicas": UNKNOWN}, {"replicas"}, "known before the deployment"),
        ({"replica": 2}, {"replica"}, "did you mean replicas"),
        ({"capacity": "sopt"}, {"capacity"}, "on-demand, spot"),
        ({"capacity": "spot", "reservation": "r"}, {"reservation"}, "not allowed with capacity spot"),
        ({"capacity": "on-demand"}, {"capacity"}, "a4-highgpu-8g"),
        ({"zones": ["europe-west4"]}, {"zones[0]"}, "europe-west4-b"),
        ({"zones": ["moon-north1-b"]}, {"zones"}, "zones of a region"),
        ({"zones": []}, {"zones"}, "at least 1"),
        ({"zones": 5}, {"zones"}, "a list"),
        ({"capacity": "on-demand"}, {"capacity"}, "write: {capacity: spot}"),
        ({"model": "google/gemma-3-27b-it"}, {"hfToken"}, "required, as a secret"),
        ({"weightsSizeGib": 10}, {"weightsSizeGib"}, "write: weightsSizeGib: 30"),
        ({"engine": {"maxModelLength": 9}}, {"engine.maxModelLength"}, "maxModelLen"),
        ({"profile": "sevre-chat"}, {"profile"}, "serve-chat"),
        ({"deletionProtection": "yes", "releaseChannel": "FAST"}, {"deletionProtection", "releaseChannel"}, "RAPID"),
    ],
)
def test_a_wrong_input_is_refused_by_its_name_in_one_message(
    plugin: Plugin, wrong: dict[str, Any], paths: set[str], words: str
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        plugin.construct("VllmFleet", "fleet", {**FLEET, **wrong})
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    found = refusals(refused.value)
    assert found.keys() == paths
    text = " ".join(found.values())
    assert words in text
    assert "vllm-fleet:" not in text


def test_another_model_has_its_own_name_and_the_parsers_that_are_named(plugin: Plugin, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    own = {"model": "acme/qwen3-8b-support", "revision": "a" * 40, "modelSizeGb": 16, "modelConfig": str(path)}
    for parsers in ({}, {"reasoningParser": "deepseek_r1", "toolCallParser": "llama3_json"}):
        given = {**SERVER, **own, **parsers, "profile": "serve-chat", "engine": {"maxModelLen": 8192}}
        outputs, monitor, _ = plugin.construct("VllmServer", "server", given, providers=MINE)
        assert outputs["endpoint"] == "http://qwen3-8b-support-server.models.svc.cluster.local:8000"
        (server,) = (one for one in monitor.resources.values() if one.type == "kubernetes:apps/v1:Deployment")
        (container,) = (one for one in server.inputs["spec"]["template"]["spec"]["containers"] if one["name"] == "vllm")
        flags = dict(
            word.partition("=")[::2] for word in container["args"] if word.partition("=")[0].endswith("parser")
        )
        assert list(flags.values()) == list(parsers.values())


@pytest.mark.parametrize("missing", ["zones", "machine", "capacity"])
def test_a_missing_input_is_named(plugin: Plugin, missing: str) -> None:
    given = {key: value for key, value in SERVER.items() if key != missing}
    with pytest.raises(grpc.RpcError) as refused:
        plugin.construct("VllmServer", "server", given, providers=MINE)
    assert refusals(refused.value).keys() == {missing}


def test_secrets_stay_secret(plugin: Plugin) -> None:
    given = {**FLEET, "hfToken": "hf_plain", "apiKey": "sk-plain"}
    _, monitor, _ = plugin.construct("VllmFleet", "fleet", given)
    seen = json.dumps([dict(one.inputs) for one in monitor.resources.values()], default=str)
    assert "hf_plain" not in seen
    assert "sk-plain" not in seen
    assert seen.count("[secret]") >= 2
