"""A port for each rank of a server pod: the command that starts one server per rank, and its program's ConfigMap.

rank_servers.py runs in the pod. docs/decisions/07-server.md gives the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from workloads import pod_programs
from workloads.names import HTTP_PORT, HTTP_PORT_NAME, STATUS_PORT

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        ContainerPortArgsDict,
        ServicePortArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )

STATUS_PORT_NAME: Final = "status"
"""Name of the container port that answers for all ranks."""
LEAVE_SECONDS: Final = 40
"""From a rank's death to the stop signal of the others: three readiness probes of 10 s fail, then DNS and load balancers follow (10 s,
assumed)."""
PROGRAM: Final = "rank_servers.py"
_FOLDER: Final = "/opt/vllm-fleet-ranks"
_VOLUME: Final = "rank-program"


def serving(ranks: int, *, experts: bool = False, options: Sequence[str] = ()) -> list[str]:
    """What starts the command that follows it once for each rank. `experts`: the ranks share the experts of one model. `options`: further
    ones of the program.
    """
    options = [f"--ranks={ranks}", f"--status-port={STATUS_PORT}", *(["--experts"] if experts else []), *options]
    # Without site-packages: the image's take longer to find than the program to start.
    return ["python3", "-I", "-S", f"{_FOLDER}/{PROGRAM}", *options, "--"]


def port_name(rank: int) -> str:
    """Name of a rank's port; the first has that of a server without rank ports."""
    return HTTP_PORT_NAME if rank == 0 else f"rank-{rank}"


def container_ports(ranks: int) -> list[ContainerPortArgsDict]:
    """The ports of the ranks, and the one that answers for all."""
    own: list[ContainerPortArgsDict] = [
        {"name": port_name(rank), "container_port": HTTP_PORT + rank, "protocol": "TCP"} for rank in range(ranks)
    ]
    return [*own, status_port()]


def status_port() -> ContainerPortArgsDict:
    """The port that answers for all ranks."""
    return {"name": STATUS_PORT_NAME, "container_port": STATUS_PORT, "protocol": "TCP"}


def service_ports(ranks: int) -> list[ServicePortArgsDict]:
    """The ports of the ranks after the first, for the Service: a port of it reaches that rank of some pod."""
    return [
        {
            "name": port_name(rank),
            "port": HTTP_PORT + rank,
            "target_port": port_name(rank),
            "protocol": "TCP",
            "app_protocol": "http",
        }
        for rank in range(1, ranks)
    ]


def volume(server: str) -> VolumeArgsDict:
    """The program."""
    return {"name": _VOLUME, "config_map": {"name": config_map_name(server)}}


def mount() -> VolumeMountArgsDict:
    """The mount of the program."""
    return {"name": _VOLUME, "mount_path": _FOLDER, "read_only": True}


def config_map_name(server: str) -> str:
    """Name of the program's ConfigMap. It changes with the program, so that a new one restarts the pods of `server`."""
    return pod_programs.named_by_content(f"{server}-ranks", program())


def program() -> dict[str, str]:
    """Data of that ConfigMap."""
    return {PROGRAM: pod_programs.python_program(f"server/{PROGRAM}")}
