"""Small programs and one shaped like the real one, for the tests of the recorder and of what reads its recordings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from fleet.preview.record.recorder import Recording, record
from fleet.preview.record.recording import Mode, StackOutputs

FIXTURES = Path(__file__).parent / "fixtures"
FLEET_LIKE = FIXTURES / "fleet_like"
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
def fleet_like(mode: Mode) -> Recording:
    """The big fixture program, recorded once per mode."""
    return record(
        FLEET_LIKE,
        project="vllm-fleet",
        stack="spot",
        config={"gcp:project": "my-project", "gcp:region": "europe-west4", "vllm-fleet:token": TOKEN},
        secret_keys=["vllm-fleet:token"],
        mode=mode,
    )
