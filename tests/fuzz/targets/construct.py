"""Arguments of the package's components, through the host that answers the engine's Construct, beside the project's recorder."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from hypothesis import strategies as st
from pulumi.errors import InputPropertiesError, InputPropertyError
from pulumi.runtime import rpc

from facades.host import Host
from facades.inputs import PACKAGE
from fleet.preview.record.recorder import record
from fleet.preview.record.recording import ProgramError, Recording
from fleet.preview.record.values import UNKNOWN, Secret
from fleet.preview.record.wire import encode_struct
from tests.fuzz.damage import SECRETS, edited, edits
from tests.fuzz.target import LONGEST_OUTPUT, Target, require, require_text
from tests.inventory import ROOT
from tests.support.canaries import shown

_ZONES = ["europe-west4-b"]
_SPACE = {"zones": _ZONES, "namespace": "models"}
_COMPONENTS: list[dict[str, Any]] = [
    {"component": "VllmFleet", "inputs": {"project": "my-project", "zones": _ZONES, "capacity": "ladder", "replicas": 2}},
    {"component": "VllmFleet", "inputs": {
        "project": "my-project", "zones": _ZONES, "capacity": "reservation", "reservation": "r", "machine": "g2-standard-12",
        "model": "Qwen/Qwen3.5-27B-FP8", "profile": "serve-chat", "engine": {"maxModelLen": 8192, "extraArgs": ["--seed=1"]},
        "replicas": 1, "weightsSizeGib": 64, "weightsThroughputMibps": 1200, "releaseChannel": "REGULAR", "deletionProtection": False,
        "labels": {"team": "a"}, "hfToken": "[hidden]", "apiKey": "[hidden]", "internalLoadBalancer": True, "startupMinutes": 30,
        "modelConfig": "config.json", "modelSizeGb": 30.5, "revision": "a" * 40, "runDurationSeconds": 600, "spotRung": True,
        "concurrencyPerReplica": 4,
    }},
    {"component": "ModelWeights", "inputs": {**_SPACE, "model": "Qwen/Qwen3.5-27B-FP8", "hfToken": "[hidden]"}},
    {"component": "VllmServer", "inputs": {**_SPACE, "capacity": "spot", "weightsClaim": "claim", "apiKey": "[hidden]"}},
    {"component": "CapacityLadder", "inputs": {**_SPACE, "runDurationSeconds": 3600, "reservation": "r"}},
]  # fmt: skip
_WORDS = (
    "spot",
    "on-demand",
    "flex-start",
    "calendar",
    "reservation",
    "ladder",
    "[hidden]",
    "[unknown]",
    "g2-standard-12",
    1.5,
)
_HOST = Host()


def _inputs() -> st.SearchStrategy[dict[str, Any]]:
    drawn = st.tuples(st.sampled_from(_COMPONENTS), edits(_WORDS, most=2))
    return drawn.map(lambda one: {**one[0], "inputs": edited(one[0]["inputs"], one[1])[0]})


def _as_sent(value: Any) -> Any:
    """Words that stand for a secret, and for what is not known yet, as the engine sends them."""
    if isinstance(value, dict):
        return {key: _as_sent(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_as_sent(one) for one in value]
    return Secret(SECRETS[0]) if value == "[hidden]" else UNKNOWN if value == "[unknown]" else value


def _opened(value: Any) -> Any:
    return pulumi.Output.secret(rpc.unwrap_rpc_secret(value)) if rpc.is_rpc_secret(value) else value


def judge(value: dict[str, Any]) -> bool:
    """Refused as wrong inputs, each named, or children made without a secret in sight."""
    inputs = value["inputs"]
    if not isinstance(inputs, dict):
        return False
    try:
        struct = encode_struct(_as_sent(inputs))
        struct.SerializeToString()
    except (ValueError, OverflowError, RecursionError):
        return False  # no engine could send it
    told: list[InputPropertiesError | InputPropertyError] = []

    def program() -> None:
        options = pulumi.ResourceOptions(providers={"kubernetes": kubernetes.Provider("mine", kubeconfig="{}")})
        given = {key: _opened(one) for key, one in rpc.deserialize_properties(struct, keep_unknowns=True).items()}
        try:
            _HOST.construct("fleet", f"{PACKAGE}:index:{value['component']}", given, options)
        except (InputPropertiesError, InputPropertyError) as error:
            told.append(error)

    try:
        recording = record(ROOT, project=PACKAGE, stack="dev", config={}, mode="known", program=program)
    except ProgramError as error:
        if not isinstance(error.__cause__, InputPropertyError):  # of a secret, which is opened as a child is made
            raise
        told.append(error.__cause__)
    if told:
        _require_refusal(told[0])
        return False
    _require_hidden(recording)
    return True


def _require_refusal(error: InputPropertiesError | InputPropertyError) -> None:
    found = (
        {error.property_path: error.reason}
        if isinstance(error, InputPropertyError)
        else {one["property_path"]: one["reason"] for one in error.errors or []}
    )
    require(found, "a refusal names no input", error)
    for path, reason in found.items():
        require(reason, "a refusal without a reason", path)
        require_text(f"{path}: {reason}", "a refused input", 4_000)
    require(len(str(found)) < LONGEST_OUTPUT, "the refusal is too long", str(found)[:300])


def _require_hidden(recording: Recording) -> None:
    for one in recording.resources:
        text = json.dumps(dict(one.inputs), default=str)
        require(not shown(text), f"a secret is an input of {one.type}", text)
    for said in recording.diagnostics:
        require_text(said.message, "a message of the package", 6_000)


TARGET = Target(inputs=_inputs(), judge=judge)
