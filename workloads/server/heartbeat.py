"""Liveness by heartbeat: the probe that restarts a server with a stalled engine, and its program's ConfigMap.

check_heartbeat.py runs in the pod. docs/decisions/07-server.md gives the reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from workloads import pod_programs

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ProbeArgsDict, VolumeArgsDict, VolumeMountArgsDict

STATE: Final = "/tmp/heartbeat.json"
"""Notes of the last probe."""
TIMEOUT_SECONDS: Final = 20
"""Of the probe: the program's three waits, and its start on a busy node."""
_PROGRAM: Final = "check_heartbeat.py"
_FOLDER: Final = "/opt/vllm-fleet-heartbeat"
_VOLUME: Final = "heartbeat-program"


def probe(plain: ProbeArgsDict, restart_stalled_seconds: int, port: int) -> ProbeArgsDict:
    """The liveness probe `plain` on /health, which also fails for an engine that takes no step. `port`: of the metrics of all engines.

    The kubelet restarts at the last of its failures in a row, so the program reports a stall that much earlier.
    """
    period, failures = plain["period_seconds"], plain["failure_threshold"]
    assert isinstance(period, int)
    assert isinstance(failures, int)
    command = [
        # Without site-packages: the image's take longer to find than the program to run.
        *("python3", "-I", "-S", f"{_FOLDER}/{_PROGRAM}"),
        f"--server=127.0.0.1:{port}",
        f"--stalled-seconds={restart_stalled_seconds - (failures - 1) * period}",
        f"--state={STATE}",
    ]
    rest: ProbeArgsDict = {key: value for key, value in plain.items() if key != "http_get"}  # type: ignore[assignment]
    return {**rest, "exec_": {"command": command}, "timeout_seconds": TIMEOUT_SECONDS}


def volume(server: str) -> VolumeArgsDict:
    """The program."""
    return {"name": _VOLUME, "config_map": {"name": config_map_name(server)}}


def mount() -> VolumeMountArgsDict:
    """The mount of the program."""
    return {"name": _VOLUME, "mount_path": _FOLDER, "read_only": True}


def config_map_name(server: str) -> str:
    """Name of the program's ConfigMap. It changes with the program, so that a new one restarts the pods of `server`."""
    return pod_programs.named_by_content(f"{server}-heartbeat", program())


def program() -> dict[str, str]:
    """Data of that ConfigMap."""
    return {_PROGRAM: pod_programs.python_program(f"server/{_PROGRAM}")}
