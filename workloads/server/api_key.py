"""The API key in a pod: a mounted file, from the stack's configuration or from
Secret Manager.

One path for both sources: Secret Manager's add-on only mounts files, and an environment variable that
refers to a Secret would be a second path to test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from settings.sections.secret_stores import SecretStore
from workloads import pod_programs, secret_files

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import VolumeArgsDict, VolumeMountArgsDict

SECRET_NAME: Final = "vllm-api-key"  # noqa: S105 - the name of a Secret, not a secret
"""The Secret, or the SecretProviderClass if Secret Manager stores the key."""
SECRET_KEY: Final = "key"  # noqa: S105 - a key's name
_DIR: Final = "/var/run/secrets/vllm-api-key"
PATH: Final = f"{_DIR}/{SECRET_KEY}"
"""Path of the key in the containers."""
_VOLUME: Final = "api-key"


def volume(store: SecretStore) -> VolumeArgsDict:
    """The pod's volume with the key."""
    if store == "kubernetes":
        return {"name": _VOLUME, "secret": {"secret_name": SECRET_NAME, "optional": False}}
    return secret_files.volume(_VOLUME, SECRET_NAME)


def mount() -> VolumeMountArgsDict:
    """The container's mount of that volume."""
    return {"name": _VOLUME, "mount_path": _DIR, "read_only": True}


def command_with_key(variable: str, command: Sequence[str]) -> list[str]:
    """`command`, started with the key in the environment variable `variable`."""
    return ["python3", "-c", pod_programs.python_program("server/with_api_key.py"), variable, PATH, *command]
