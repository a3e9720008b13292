"""Compile caches of server pods: the pods' own restore and save programs, run against a bucket on loopback.

A pod starts when its restore program has ended, with a warm or cold start time. After the pod is Ready, its save program runs. Both
commands come from the pod's manifest, with loopback addresses; the compiled content is one small file.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path, PurePosixPath
from typing import Final

from fleet.clients.scratch import scratch
from lab.cloud.agenda import Agenda
from lab.cloud.world import COMPILED, World, is_ready
from lab.control_plane.api import CONFIG_MAP, POD, Manifest
from lab.control_plane.mirror import Change
from lab.simulators.bucket import LocalBucket
from lab.simulators.local_server import Answer, Request
from workloads.server.compile_cache import NAME

KERNEL: Final = "triton/kernel.cubin"
"""The simulated compile cache."""
SAVED_WALL_SECONDS: Final = 60.0
"""Timeout of a save program. Measured: 0.2 s."""
_ELSEWHERE: Final = frozenset({"--cache", "--through", "--health", "--state"})
"""Options with paths and addresses of the pod."""
_HEALTH: Final = "/health"


class _Bucket(LocalBucket):
    """A bucket that also answers the server's health check."""

    def answer(self, request: Request) -> Answer:
        return Answer(200, b"") if request.path == _HEALTH else super().answer(request)


class CompileCaches:
    """Runs the cache programs of server pods. Construct it before the world is entered, then enter it inside."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._buckets: dict[str, _Bucket] = {}
        self._agenda = Agenda(world.clock, "compile-caches", workers=4)
        self._lock = threading.Lock()
        self._begun: set[tuple[str, str]] = set()
        """Pod UID and program."""
        self._tried: set[str] = set()
        self._stack = contextlib.ExitStack()
        world.pods.listen(self._on_pod)

    def __enter__(self) -> CompileCaches:
        self._folder = self._stack.enter_context(scratch("rehearsal"))
        return self

    def __exit__(self, *_: object) -> None:
        self._agenda.close()
        self._stack.close()

    @property
    def archives(self) -> tuple[tuple[LocalBucket, str], ...]:
        """Archives: bucket and name."""
        with self._lock:
            return tuple((bucket, name) for bucket in self._buckets.values() for name in list(bucket.objects))

    def has_tried(self, pod: Manifest) -> bool:
        """Whether the pod's save program has ended; a real pod is not Ready before."""
        with self._lock:
            return pod["metadata"]["uid"] in self._tried

    def _on_pod(self, change: Change, pod: Manifest, _: Manifest | None) -> None:
        if change == "deleted" or not pod["spec"].get("nodeName") or saver_of(pod) is None:
            return
        call = self._save if is_ready(pod) else self._restore
        with self._lock:
            key = (pod["metadata"]["uid"], call.__name__)
            if key in self._begun:
                return
            self._begun.add(key)
        self._agenda.soon(call, pod)

    def _restore(self, pod: Manifest) -> None:
        name, cache = pod["metadata"]["name"], self._cache(pod)
        cache.mkdir(exist_ok=True)
        server = pod["spec"]["containers"][0]
        restoring, _ = self._here(pod, server, cache)
        done = subprocess.run([*restoring, "--", "true"], capture_output=True, text=True, check=True)
        warm = (cache / KERNEL).exists()
        if not warm:
            (cache / KERNEL).parent.mkdir(parents=True, exist_ok=True)
            (cache / KERNEL).write_text("compiled")
        result = done.stderr.strip().removeprefix("compile cache: ")
        self._world.timeline.note("pod", name, f"compile caches: {result}", mood="good" if warm else "plain")
        mark = {"metadata": {"annotations": {COMPILED: "warm" if warm else "cold"}}}
        self._world.api.patch(POD, name, pod["metadata"]["namespace"], mark)

    def _save(self, pod: Manifest) -> None:
        saver, state = saver_of(pod), self._cache(pod).with_suffix(".state")
        assert saver is not None
        state.mkdir(exist_ok=True)
        words, bucket = self._here(pod, saver, self._cache(pod))
        words += [f"--health={bucket.url}{_HEALTH}", f"--state={state}"]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + SAVED_WALL_SECONDS
            while not (state / "done").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            process.terminate()
        shutil.rmtree(state)
        with self._lock:
            self._tried.add(pod["metadata"]["uid"])

    def _here(self, pod: Manifest, container: Manifest, cache: Path) -> tuple[list[str], LocalBucket]:
        """The container's cache program with local paths and addresses, and its bucket."""
        words = container["command"]
        _, program, *options = words[: words.index("--")] if "--" in words else words
        kept = [option for option in options if option.partition("=")[0] not in _ELSEWHERE]
        name = kept[kept.index("--bucket") + 1]
        with self._lock:
            if name not in self._buckets:
                self._buckets[name] = self._stack.enter_context(_Bucket(name))
            bucket = self._buckets[name]
        code = self._mounted(pod, container, PurePosixPath(program))
        places = [f"--cache={cache}", f"--storage={bucket.url}", f"--metadata={bucket.url}"]
        return [sys.executable, "-c", code, *kept, *places], bucket

    def _mounted(self, pod: Manifest, container: Manifest, file: PurePosixPath) -> str:
        """The content of a file that a ConfigMap gives to the container."""
        (volume,) = (mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == str(file.parent))
        (source,) = (source for source in pod["spec"]["volumes"] if source["name"] == volume)
        config_map = self._world.api.get(CONFIG_MAP, source["configMap"]["name"], pod["metadata"]["namespace"])
        assert config_map is not None
        return str(config_map["data"][file.name])

    def _cache(self, pod: Manifest) -> Path:
        return self._folder / str(pod["metadata"]["uid"])


def saver_of(pod: Manifest) -> Manifest | None:
    """The container that saves a server pod's compile caches, if any."""
    return next((container for container in pod["spec"].get("initContainers") or () if container["name"] == NAME), None)
