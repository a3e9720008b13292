"""The offline preview, judged by Pulumi's engine: the same resources, inputs, operations and policy findings, on every stack.

The engine previews the program with the rehearsal's simulated Google and a Kubernetes provider without a cluster. These share the
preview's tables of what replaces a resource; everything else (order, what is unknown, what follows from a replacement) is the
engine's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime.rpc import UNKNOWN as UNKNOWN_TEXT

from facts.names import stack_names
from fleet.preview.compare.compare import compare
from fleet.preview.offline import OfflineStack, open_stack, record_stack
from fleet.preview.record.recording import STACK_REFERENCE_TYPE, RecordedResource, Recording
from fleet.preview.record.values import UNKNOWN, Secret, paths_of_unknowns
from fleet.preview.report.model import Policies
from fleet.preview.stack_preview import preview_stack
from lab.engine.events import Events, Outcome
from lab.providers.base import Served
from lab.providers.google.cloud import SimulatedCloud
from lab.providers.google.provider import Google
from lab.stage.variants import varied
from tests.guides.world import QUICK
from tests.support.driven_pulumi import DrivenPulumi
from tests.support.plain_kubernetes import PlainKubernetes
from tests.support.stacks import CODE, opened_stack

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
HOSTS = {CODE: "spot"}
REVISION = "0123456789abcdef0123456789abcdef01234567"
CHANGES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "smoke": {
        "machine": {"machine": "g2-standard-16"},
        "capacity mode": {"capacity": {"mode": "flex-start", "runDurationSeconds": 86_400}},
        "alerts": {"monitoring": {"alerts": {"channels": [{"type": "email", "address": "oncall@fleet-tests.dev"}]}}},
        "protection on": {"cluster": {"deletionProtection": True}},
    },
    "dev": {
        "profile": {"server": {"profile": "serve-chat"}},
        "canary on": {"rollout": {"engine": {"maxNumSeqs": 256}}},
        "weights revision": {"model": {"id": "Qwen/Qwen3.5-27B-FP8", "revision": REVISION}},
    },
    "batch": {"kept": {"server": {"scaling": None, "replicas": 1}}},
    "cud": {
        "replicas": {"server": {"replicas": 2}},
        "version": {"server": {"engine": {"version": "0.33.0"}, "image": {"digest": f"sha256:{'0' * 64}"}}},
    },
    "spot": {
        "pause": {"server": {"replicas": 0}, "benchmark": {"runOnUpdate": False}},
        "rename": {"server": {"name": "renamed"}},
        "namespace": {"namespace": "elsewhere"},
        "zone": {"zones": ["europe-west4-a"]},
        "benchmark off": {"benchmark": {"enabled": False}},
        "disk": {"weights": {"sizeGib": 80}},
        "gateway on": {"gateway": {"enabled": True}},
    },
    "gateway": {"gateway off": {"gateway": {"enabled": False}}},
    "prod": {
        "protection off": {"cluster": {"deletionProtection": False}},
        "scaling off": {"server": {"scaling": None, "replicas": 2}},
        "compile cache off": {"server": {"compileCache": {"enabled": False}}},
    },
    CODE: {"nothing": {}, "replicas": {"server": {"replicas": 2}}},
}


BACK: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "dev": ("canary off", {"rollout": {"engine": {"maxNumSeqs": 256}}}),
    "prod": ("scaling on", {"server": {"scaling": None, "replicas": 2}}),
}
"""Changes that lead from these sections back to the stack's own."""


@dataclass
class Bench:
    """The engine with one stack, and those that it refers to."""

    pulumi: DrivenPulumi
    stack: str
    before: Recording | None = None
    """The program's, as it is up."""

    def preview(self) -> Outcome:
        """The engine's preview as README says, with everything that the engine knows of each resource."""
        config = f"policy/config/{self.stack}.json"
        pack = ("--policy-pack", "policy", *(("--policy-pack-config", config) if (ROOT / config).is_file() else ()))
        return self.pulumi.preview(self.stack, "--json", *pack)


@pytest.fixture(scope="module", params=(*stack_names(ROOT), CODE))
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    stack, folder = str(request.param), tmp_path_factory.mktemp("engine")
    with ExitStack() as started:
        served = started.enter_context(Served(Google(SimulatedCloud()), PlainKubernetes()))
        pulumi = DrivenPulumi(ROOT, folder / "run", providers=served.ports, variables=QUICK)
        if stack in HOSTS:
            pulumi.stage(opened_stack(HOSTS[stack]))
            assert pulumi.up(HOSTS[stack], "--skip-preview").succeeded
        pulumi.stage(opened_stack(stack))
        yield Bench(pulumi, stack)


def test_a_first_preview_and_every_change_are_the_engines(bench: Bench) -> None:
    """One test a stack, so that a runner of tests brings each up once."""
    wrong = {"first preview": differences_of_a_first_preview(bench)}
    opened = opened_stack(bench.stack)
    bring_up(bench, opened)
    for name, sections in CHANGES[bench.stack].items():
        bench.pulumi.stage(varied(opened, sections))
        wrong[name] = differences_of_a_change(bench)
    if bench.stack in BACK:
        name, before = BACK[bench.stack]
        bring_up(bench, varied(opened, before))
        bench.pulumi.stage(opened)
        wrong[name] = differences_of_a_change(bench)
    told = [f"{name}: {one}" for name, found in wrong.items() for one in found]
    assert not told, "\n".join(told)


def bring_up(bench: Bench, stack: OfflineStack) -> None:
    bench.pulumi.stage(stack)
    up = bench.pulumi.up(bench.stack, "--skip-preview")
    assert up.succeeded, up.failures
    bench.before = record_stack(stack, "preview", is_up=True)


def differences_of_a_first_preview(bench: Bench) -> list[Any]:
    """Everything that a program says of its resources, and the findings."""
    outcome = bench.preview()
    assert outcome.succeeded, outcome.failures
    theirs = {
        step["newState"]["urn"]: step["newState"]
        for step in json_of(outcome)["steps"]
        if not is_default_provider(step["urn"])
    }
    root = bench.pulumi.project.folder
    ours = record_stack(open_stack(root, bench.stack), "preview").by_urn
    found: list[Any] = [("resources", urn) for urn in sorted(ours.keys() ^ theirs.keys())]
    for urn in ours.keys() & theirs.keys():
        mine, engines = registration(ours[urn]), registered(theirs[urn])
        found += [(urn, key, mine[key], engines[key]) for key in mine if mine[key] != engines[key]]
    return found + different_verdicts(findings(preview_stack(root, bench.stack).policies), outcome.planned)


def differences_of_a_change(bench: Bench) -> list[Any]:
    """Operations and findings."""
    outcome = bench.preview()
    root = bench.pulumi.project.folder
    wrong: list[Any] = different_verdicts(findings(preview_stack(root, bench.stack).policies), outcome.planned)
    if any(one.level == "mandatory" for one in outcome.planned.violations):
        return wrong  # The engine stops there.
    assert outcome.succeeded, outcome.failures
    assert bench.before is not None
    after = record_stack(open_stack(root, bench.stack), "preview", is_up=True)
    ours = {one.urn: one.operation for one in compare(bench.before, after).resources}
    theirs = {
        urn: operation
        for urn, operation in outcome.planned.operations.items()
        if not is_default_provider(urn) and STACK_REFERENCE_TYPE not in urn
    }
    # Two recordings cannot tell apart what Google alone knows, such as a project's number in a principal.
    hidden = {one.urn for one in after.resources if paths_of_unknowns(dict(one.inputs)) and ours.get(one.urn) == "same"}
    both = [(urn, ours.get(urn), theirs.get(urn)) for urn in (ours.keys() | theirs.keys()) - hidden]
    return [one for one in both if one[1] != one[2]] + wrong


def registration(one: RecordedResource) -> dict[str, Any]:
    """What the recorder has of a resource."""
    return {
        "inputs": plain(one.inputs),
        "custom": one.custom,
        "parent": one.parent,
        "provider": one.provider.rpartition("::")[0],
        "protect": one.protect,
        "retainOnDelete": one.retain_on_delete,
        "dependencies": sorted(one.dependencies),
        "propertyDependencies": {key: sorted(urns) for key, urns in one.property_dependencies.items()},
        "additionalSecretOutputs": sorted(one.additional_secret_outputs),
        "ignoreChanges": list(one.ignore_changes),
        "replaceOnChanges": list(one.replace_on_changes),
        "deletedWith": one.deleted_with,
        "customTimeouts": {key: seconds(text) for key, text in one.custom_timeouts.items()},
    }


def registered(one: Mapping[str, Any]) -> dict[str, Any]:
    """The same of the engine's, without what it adds to a provider."""
    provider, is_provider = one.get("provider", "").rpartition("::")[0], one["type"].startswith("pulumi:providers:")
    added = ("version", "__internal") if is_provider else ()
    return {
        "inputs": known({key: value for key, value in (one.get("inputs") or {}).items() if key not in added}),
        "custom": one["custom"],
        "parent": one.get("parent", ""),
        "provider": "" if is_default_provider(provider) else provider,
        "protect": one.get("protect", False),
        "retainOnDelete": one.get("retainOnDelete", False),
        "dependencies": sorted(one.get("dependencies") or ()),
        "propertyDependencies": {
            key: sorted(urns) for key, urns in (one.get("propertyDependencies") or {}).items() if urns
        },
        "additionalSecretOutputs": sorted(one.get("additionalSecretOutputs") or ()),
        "ignoreChanges": one.get("ignoreChanges") or [],
        "replaceOnChanges": one.get("replaceOnChanges") or [],
        "deletedWith": one.get("deletedWith", ""),
        "customTimeouts": one.get("customTimeouts") or {},
    }


Found = tuple[str, ...]


def findings_of_engine(engines: Events) -> set[Found]:
    """The findings; what a pack cannot judge in a preview is one of them."""
    return {
        ("unreached", one.policy, one.urn)
        if "can't be known during preview" in one.message
        else (one.level, one.policy, one.urn, one.message)
        for one in engines.violations
    }


def findings(ours: Policies) -> set[Found]:
    """The same of a preview here, which judges placeholders."""
    return {(one.level, one.policy, one.urn, one.message) for one in ours.violations}


def different_verdicts(ours: set[Found], engines: Events) -> list[Found]:
    """Findings of one side alone, apart from what the engine cannot judge."""
    theirs = findings_of_engine(engines)
    unreached = {found[1:3] for found in theirs if found[0] == "unreached"}
    return sorted(one for one in ours ^ theirs if one[0] != "unreached" and one[1:3] not in unreached)


def json_of(outcome: Outcome) -> Any:
    """The document that `--json` prints, after what the command has to say before."""
    return json.JSONDecoder().raw_decode(outcome.output[outcome.output.index("{\n") :])[0]


def is_default_provider(urn: str) -> bool:
    return "::pulumi:providers:" in urn and urn.rpartition("::")[2].startswith("default")


def plain(value: Any) -> Any:
    """A recorded value as the engine prints it."""
    if value is UNKNOWN:
        return None
    if isinstance(value, Secret):
        return "[secret]"
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def known(value: Any) -> Any:
    """A printed value with None for what is unknown."""
    if isinstance(value, dict):
        return {key: known(item) for key, item in value.items()}
    if isinstance(value, list):
        return [known(item) for item in value]
    return None if value == UNKNOWN_TEXT else value


def seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
