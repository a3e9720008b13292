"""A container of a router's pod as a program on this machine: its command, files and configuration, and what of them is replaced.

Replaced are addresses (the pod's own, 127.0.0.1, the nameserver), the folders of mounts, HAProxy's durations, which follow the
rehearsal's clock, and more connections than this machine has files for. Everything else is the pod's.
"""

from __future__ import annotations

import re
import resource
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.results.result import RehearsalError

LEAST_INTERVAL_WALL_SECONDS: Final = 0.05
"""Of checks and of questions to the nameserver, so that they do not fill the machine on a fast clock. Assumed."""
LEAST_TIMEOUT_WALL_SECONDS: Final = 2.0
"""Minimum of a timeout, so that a busy machine does not cause timeouts at high speeds. Assumed."""
_OTHER_FILES: Final = 1_000
"""Files that HAProxy opens besides connections. Assumed: far more than listeners, health checks and threads."""
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Not how long a name is kept while the nameserver fails: here it is only late, on a busy machine.
_DURATION: Final = re.compile(
    r"(?P<what>(?:^\s*(?:timeout [a-z-]+|hold (?:valid|obsolete)|hard-stop-after)|\b(?:fast|down)?inter) |http_req_rate\()"
    r"(?P<number>\d+)(?P<unit>us|ms|s|m|h|d)?\b",
    re.MULTILINE,
)
_CONNECTIONS: Final = re.compile(r"^(?P<what>\s+maxconn )(?P<number>\d+)$", re.MULTILINE)
_BIND: Final = re.compile(r"^(?P<bind>\s*bind )(?:\*|0\.0\.0\.0)?:(?P<port>\d+)", re.MULTILINE)
_NAMESERVERS: Final = re.compile(r"^(?P<space>\s*)(?:parse-resolv-conf|nameserver .*)$", re.MULTILINE)
_LISTENS: Final = re.compile(r'(?P<call>HTTPServer\()\(""')
_REFERENCE: Final = re.compile(r"\$\((?P<name>[A-Za-z_]\w*)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a pod's containers run on this machine."""

    address: str
    """The pod's address."""
    own: str
    """What is 127.0.0.1 in the pod."""
    nameserver: str
    """ADDRESS:PORT."""
    speed: float
    """Simulated seconds per wall second."""


def command_of(container: Mapping[str, Any], place: Place, folders: Mapping[str, Path]) -> list[str]:
    """The container's program on this machine. `folders`: what is mounted where. Raises RehearsalError for a missing program."""
    environment = environment_of(container)
    given = [*(container.get("command") or ()), *(container.get("args") or ())]
    words = [_expanded(word, environment) for word in given]
    if not words:
        raise RehearsalError(
            f"container {container['name']}: its command is in its image, and a rehearsal has no images"
        )
    return [_program(words[0]), *(_here(word, place, folders) for word in words[1:])]


def environment_of(container: Mapping[str, Any]) -> dict[str, str]:
    """Its variables with values; those from elsewhere are left out."""
    return {one["name"]: str(one["value"]) for one in container.get("env") or () if "value" in one}


def is_haproxy(container: Mapping[str, Any]) -> bool:
    """Whether the container runs HAProxy, whose image has the stop signal SIGUSR1. Source: Dockerfile of the official image."""
    return "haproxy" in container["image"]


def haproxy_config(text: str, place: Place, folders: Mapping[str, Path]) -> str:
    """A configuration for this machine."""
    text = _NAMESERVERS.sub(rf"\g<space>nameserver rehearsal {place.nameserver}", text)
    text = _BIND.sub(rf"\g<bind>{place.address}:\g<port>", text)
    text = _DURATION.sub(lambda found: _shorter(found, place.speed), text)
    most = (
        resource.getrlimit(resource.RLIMIT_NOFILE)[1] - _OTHER_FILES
    ) // 2  # a client's and a server's for each request
    text = _CONNECTIONS.sub(lambda found: f"{found['what']}{min(int(found['number']), most)}", text)
    return _here(text, place, folders)


def _shorter(found: re.Match[str], speed: float) -> str:
    seconds = int(found["number"]) * _UNITS[found["unit"] or "ms"]
    least = min(seconds, _least_wall_seconds(found["what"].strip()))
    return f"{found['what']}{max(1, round(max(seconds / speed, least) * 1000))}ms"


def _least_wall_seconds(what: str) -> float:
    if what == "hard-stop-after":  # as a pod's grace period, in which it ends
        return 0.0
    often = what.endswith("inter") or what in ("hold valid", "hold obsolete", "timeout resolve", "timeout retry")
    return LEAST_INTERVAL_WALL_SECONDS if often else LEAST_TIMEOUT_WALL_SECONDS


def python_program(text: str, place: Place) -> str:
    """A program of the standard library for this machine: it asks what is 127.0.0.1 in the pod, and listens on the pod's address."""
    return _LISTENS.sub(rf'\g<call>("{place.address}"', text).replace("127.0.0.1", place.own)


def _here(text: str, place: Place, folders: Mapping[str, Path]) -> str:
    if folders:
        # Longest first: a mount may lie in another. In one pass: a folder may begin like a mount.
        paths = "|".join(re.escape(path) for path in sorted(folders, key=len, reverse=True))
        text = re.sub(rf"(?<![\w.-])(?:{paths})(?=/|\s|\"|\)|$)", lambda found: str(folders[found[0]]), text)
    return text.replace("127.0.0.1", place.own).replace("0.0.0.0", place.address)  # noqa: S104 - replaced


def _expanded(word: str, environment: Mapping[str, str]) -> str:
    """References to variables, as the kubelet replaces them."""
    return _REFERENCE.sub(lambda found: environment.get(found["name"], found[0]), word)


def require_programs(*names: str) -> None:
    """Raises RehearsalError for the first that is not installed, with what to type."""
    for name in names:
        _program(name)


def _program(name: str) -> str:
    if name == "python3":
        return sys.executable
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        write = "make setup-rehearsal" if name == "vllm-router" else f"apt-get install {name}"
        raise RehearsalError(f"{name} is not installed, which a router's pod runs; run: {write}")
    return found
