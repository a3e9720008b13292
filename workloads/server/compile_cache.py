"""Compile caches that outlive a pod: the command that restores them and the container that stores them.

keep_compile_cache.py runs in the pod. docs/decisions/07-server.md explains permissions and safety.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from facts.sizing import CACHE_SAVER_DISK_GIB
from settings.derived.compile_cache import PersistedCache
from workloads import pod_programs

if TYPE_CHECKING:
    import pulumi
    from pulumi_kubernetes.core.v1 import ContainerArgsDict, VolumeArgsDict, VolumeMountArgsDict

PATH: Final = "/cache"
"""Directory of all caches of vLLM and its libraries. Compiled files contain their paths, so it is the same in every pod."""
NAME: Final = "compile-cache"
"""Name of the storing container and its volume."""
API_HOST: Final = "private.googleapis.com"
"""Used instead of storage.googleapis.com: four addresses that a network policy can list. Source: VPC docs, Private Google Access."""
RESTORE_SECONDS: Final = 90
"""Longest wait for a restore. Assumed: 8 GiB, the maximum, at 100 MB/s; compiling takes the article's node nine
minutes."""
SAVE_SECONDS: Final = 120
"""Longest delay of a pod's readiness for storing. Assumed: packing and sending the same amount."""
_STATE: Final = "/state"
_PROGRAM: Final = "keep_compile_cache.py"
_FOLDER: Final = "/opt/vllm-fleet"
"""Folder of the program in both containers."""
_PROGRAM_VOLUME: Final = "compile-cache-program"
_CPU, _MEMORY, _DISK = "500m", "1Gi", f"{CACHE_SAVER_DISK_GIB}Gi"
"""Resources of the storing container."""


def restoring(cache: PersistedCache) -> list[pulumi.Input[str]]:
    """What starts the command that follows it after the restore succeeded or failed."""
    return [*_command("restore", cache, RESTORE_SECONDS), "--"]


def upload_sidecar(
    cache: PersistedCache, image: pulumi.Input[str], caches: VolumeMountArgsDict, port: int
) -> ContainerArgsDict:
    """The sidecar that stores the caches, once the server answers on `port`. The pod becomes ready after its attempt."""
    amounts = {"cpu": _CPU, "memory": _MEMORY, "ephemeral-storage": _DISK}
    health = f"--health=http://127.0.0.1:{port}/health"
    return {
        "name": NAME,
        "image": image,
        "restart_policy": "Always",
        "command": [*_command("save", cache, SAVE_SECONDS), health, f"--state={_STATE}"],
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "security_context": {
            "allow_privilege_escalation": False,
            "capabilities": {"drop": ["ALL"]},
            "read_only_root_filesystem": True,
        },
        "volume_mounts": [{**caches, "read_only": True}, program_mount(), {"name": NAME, "mount_path": _STATE}],
        "readiness_probe": {"exec_": {"command": ["test", "-f", f"{_STATE}/done"]}, "period_seconds": 5},
    }


def volumes(server: str) -> list[VolumeArgsDict]:
    """The program, and the sidecar's volume with its status file and the archive while it is packed."""
    return [{"name": NAME, "empty_dir": {}}, {"name": _PROGRAM_VOLUME, "config_map": {"name": config_map_name(server)}}]


def program_mount() -> VolumeMountArgsDict:
    """The mount of the program in a container that runs it."""
    return {"name": _PROGRAM_VOLUME, "mount_path": _FOLDER, "read_only": True}


def config_map_name(server: str) -> str:
    """Name of the program's ConfigMap. It changes with the program, so that a new one restarts the pods of `server`."""
    return pod_programs.named_by_content(f"{server}-{NAME}", program())


def program() -> dict[str, str]:
    """Data of that ConfigMap."""
    return {_PROGRAM: pod_programs.python_program(f"server/{_PROGRAM}")}


def _command(action: str, cache: PersistedCache, limit_seconds: int) -> list[pulumi.Input[str]]:
    options = [f"--key={cache.key}", f"--cache={PATH}", f"--limit-seconds={limit_seconds}", f"--through={API_HOST}"]
    return ["python3", f"{_FOLDER}/{_PROGRAM}", action, "--bucket", cache.bucket, *options]
