"""A simulated server by vLLM's own command line, where a pod's program starts it: `vllm serve MODEL --port=8001 ...`.

    python -m lab.simulators.model_server.vllm_command serve MODEL --host=127.0.0.1 --port=8001 --kv-transfer-config={...}

Read are the options that decide whether and how a cache moves, the address and the end; every other one is taken and ignored. Stopped by
SIGTERM, it finishes its requests within `--shutdown-timeout`. It ends with the program that started it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from fleet import CODE
from lab.results.clock import Clock
from lab.simulators.model_server.node import LEASE_SECONDS, Cache, Node, Pace, Transfer

SPEED: Final = "REHEARSAL_SPEED"
"""Variable with the simulated seconds of a wall second."""
STEP_SECONDS: Final = 0.5
"""Simulated. A multiple of an engine's: each step is a chunk through two proxies on this machine."""
LAYOUT: Final = "VLLM_SSM_CONV_STATE_LAYOUT"
_ORPHANED_WALL_SECONDS: Final = 0.5


def put_on_path(folder: Path) -> str:
    """Make `vllm` a simulated server for programs whose PATH begins with the returned folder."""
    bin_ = folder / "bin"
    bin_.mkdir(parents=True, exist_ok=True)
    program = bin_ / "vllm"
    code = f"import sys; sys.path.insert(0, {str(CODE)!r}); from {__name__} import main; main(sys.argv[1:])"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return str(bin_)


def options_of(arguments: Sequence[str]) -> dict[str, str]:
    """Options of the form `--name=value`."""
    return {name: value for name, equals, value in (word.partition("=") for word in arguments) if equals}


def node_of(arguments: Sequence[str], environment: Mapping[str, str]) -> Node:
    """The server that the command describes. Raises ValueError for a connector that it does not know."""
    options, speed = options_of(arguments), float(environment.get(SPEED, "1"))
    given = json.loads(options.get("--kv-transfer-config", "null"))
    transfer = None
    if given is not None:
        if given["kv_connector"] != "NixlConnector":
            raise ValueError(f"kv_connector: only NixlConnector is simulated, got {given['kv_connector']}")
        own = given.get("kv_connector_extra_config", {})
        transfer = Transfer(
            role=given["kv_role"],
            recomputes=given.get("kv_load_failure_policy") == "recompute",
            # Of the wall: the router between prefill and decode is no faster here.
            lease_seconds=own.get("kv_lease_duration", LEASE_SECONDS) * speed,
            agreement=agreement(options, environment),
        )
    return Node(
        model=options["--served-model-name"],
        ranks=1,
        max_num_seqs=int(options.get("--max-num-seqs", 256)),
        cache=Cache(prefix_caching="--no-enable-prefix-caching" not in arguments),
        pace=Pace(fixed_s=STEP_SECONDS),
        transfer=transfer,
        version=environment.get("REHEARSAL_VERSION", "0.33.0"),
    )


def agreement(options: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """What must be equal on both sides. Source: vLLM 0.33.0, kv_connector/v1/nixl/metadata.py, compute_nixl_compatibility_hash, and
    base_worker.py, _validate_remote_agent_handshake: release, model, types, drafts; and block size and layout.
    """
    names = ("--served-model-name", "--kv-cache-dtype", "--block-size", "--speculative-config", "--attention-backend")
    return json.dumps([*(options.get(name) for name in names), environment.get(LAYOUT)])


async def serve(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Serve until SIGTERM, or until the starting program has ended."""
    # Not at the top: a pod of routers alone needs none of its packages.
    from lab.simulators.model_server.engine_server import EngineServer

    options, clock = options_of(arguments), Clock(float(environment.get(SPEED, "1")))
    server = EngineServer(node_of(arguments, environment), clock=clock)
    loop, stopped, parent = asyncio.get_running_loop(), asyncio.Event(), os.getppid()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    await server.start(options.get("--host", "127.0.0.1"), int(options["--port"]))
    server.ready = True
    while not stopped.is_set() and os.getppid() == parent:
        try:
            await asyncio.wait_for(stopped.wait(), _ORPHANED_WALL_SECONDS)
        except TimeoutError:
            continue
    if os.getppid() == parent:
        await server.drain(finish_seconds=float(options.get("--shutdown-timeout", 0)))


def main(arguments: Sequence[str]) -> None:
    """Serve, then end without asking what is open."""
    asyncio.run(serve(arguments, os.environ))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
