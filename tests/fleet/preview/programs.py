"""Small programs and a recording of the real one, for the tests of the recorder and of what reads its recordings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fleet.preview.record.recorder import Recording, Secret, record
from fleet.preview.record.recording import Mode, RecordedResource, StackOutputs
from tests.support.stacks import recorded_stack

FIXTURES = Path(__file__).parent / "fixtures"
TOKEN = "hush-hush-token"


def run(
    program: Callable[[], None],
    mode: Mode = "known",
    *,
    stack: str = "test",
    root: Path = FIXTURES,
    config: dict[str, str] | None = None,
    stack_outputs: Callable[[str], StackOutputs] | None = None,
) -> Recording:
    """Record a function as a program of project `fixture`, with one secret setting: `token`."""
    return record(
        root,
        project="fixture",
        stack=stack,
        config={"gcp:project": "my-project", "fixture:token": TOKEN, **(config or {})},
        secret_keys=["fixture:token"],
        mode=mode,
        stack_outputs=stack_outputs,
        program=program,
    )


@functools.cache
def whole_fleet(mode: Mode) -> Recording:
    """Stack gateway, with a token in a Secret."""
    recorded = recorded_stack("gateway", mode)
    token = RecordedResource(
        urn="urn:pulumi:gateway::vllm-fleet::kubernetes:core/v1:Secret::token",
        type="kubernetes:core/v1:Secret",
        name="token",
        inputs={
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "hf-token", "namespace": "vllm-gateway"},
            "stringData": Secret({"token": TOKEN}),
        },
    )
    return replace(recorded, resources=(*recorded.resources, token), secrets=frozenset({TOKEN}))
