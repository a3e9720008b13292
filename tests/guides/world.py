"""A shell in a copy of the project: the real engine, a simulated Google Cloud, and Kubernetes objects that are ready at once."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.engine.pulumi import Pulumi, Said
from lab.providers.base import Served, type_of
from lab.providers.google.cloud import SimulatedCloud
from lab.providers.google.provider import Google
from tests.guides.lines import ROOT
from tests.support.plain_kubernetes import PlainKubernetes
from tests.support.refusing_cloud import RefusingCloud


class Hold:
    """Stops creations of one type on their way to the cloud, so that a test can end the update meanwhile."""

    def __init__(self) -> None:
        self._type = ""
        self._arrived, self._released = threading.Event(), threading.Event()

    def at(self, type_: str) -> None:
        """Stop the next creations of this type."""
        self._type = type_
        self._arrived.clear()
        self._released.clear()

    def until_arrived(self) -> None:
        """Wait for a creation to be stopped."""
        assert self._arrived.wait(SECONDS)

    def release(self) -> None:
        """The cloud finishes what it was asked for."""
        self._type = ""
        self._released.set()

    def passes(self, request: Any) -> None:
        """A creation comes by."""
        if not request.preview and type_of(request.urn) == self._type:
            self._arrived.set()
            self._released.wait(SECONDS)


class _Google(Google):
    def __init__(self, cloud: SimulatedCloud, hold: Hold) -> None:
        super().__init__(cloud)
        self._hold = hold

    def create(self, request: Any) -> tuple[str, dict[str, Any]]:
        self._hold.passes(request)
        return super().create(request)


class _Kubernetes(PlainKubernetes):
    def __init__(self, hold: Hold) -> None:
        super().__init__()
        self._hold = hold

    def create(self, request: Any) -> tuple[str, dict[str, Any]]:
        self._hold.passes(request)
        return super().create(request)


QUICK = {"PYTHONPATH": str(ROOT / "tests" / "guides" / "quick")}
"""For programs that load the provider SDKs as `fleet preview` does: a fifth of an update's time otherwise."""
SECONDS = 240
"""Longest time of a command line. Assumed: an update takes ten seconds on an idle machine."""


class World:
    """What a reader of a guide has: a shell, the project, a Google Cloud project."""

    def __init__(self, pulumi: Pulumi, cloud: RefusingCloud, hold: Hold) -> None:
        self.pulumi = pulumi
        self.cloud = cloud
        self.hold = hold

    @property
    def folder(self) -> Path:
        """The project's copy, where commands run."""
        return self.pulumi.project.folder

    def type(self, line: str, names: Mapping[str, str] | None = None, *, given: str = "") -> Said:
        """Run a command line of a page, with these names for the words in capitals."""
        for word, name in (names or {}).items():
            line = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", name, line)
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            env={**self.pulumi.environment, "PULUMI_SKIP_CONFIRMATIONS": "true", "NO_COLOR": "1"},
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return Said(code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def provide(self, stack: str, *, up: bool) -> None:
        """A stack that the page finds there: initialised with a project, and up."""
        for line in (
            f"pulumi stack init {stack}",
            f"pulumi config set gcp:project my-project --stack {stack}",
            *([f"pulumi up --skip-preview --stack {stack}"] if up else []),
        ):
            said = self.type(line)
            assert said.code == 0, said


@contextmanager
def world(folder: Path, root: Path = ROOT) -> Iterator[World]:
    """A new world in `folder`, with a copy of the project in `root`."""
    cloud, hold = RefusingCloud(), Hold()
    with Served(_Google(cloud, hold), _Kubernetes(hold)) as served:
        yield World(Pulumi(root, folder, providers=served.ports, variables=QUICK), cloud, hold)
        hold.release()
