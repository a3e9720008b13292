"""A batch before a real API server and Job controller, while pods, servers and bucket fail; and its time beside a direct loop.

python -m tests.workloads.batch.proof faults [--documents N] [--seed N] [--seconds S] [--speed X]
python -m tests.workloads.batch.proof overhead [--documents N] [--rounds N] [--seconds S]

Prints what was seen as JSON. Exit code 1: a line is missing or there twice, or other lines than the planted ones have an error.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lab.control_plane.api import CONFIG_MAP, JOB, NODE, POD, ApiRefusedError, ClusterApi
from lab.control_plane.build import binaries
from lab.control_plane.cluster import ControlPlane
from tests.workloads.batch.server import CRASH, POISON, REFUSED, RESET
from tests.workloads.batch.world import ID, URL, World, end, started
from workloads.batch.job import config_map_manifest
from workloads.batch.pods.process_shard import numbers_of
from workloads.batch.pods.requesting import Endpoint

SERVERS: Final = 2
AT_ONCE: Final = 64
"""Documents that a server runs at once."""
FAULTS: Final = {"500": 0.005, "429": 0.005, "503": 0.005, "0": 0.005}
BUCKET_FAILS: Final = 0.02


@dataclass
class Kubelet:
    """Runs the program of each pod that is bound to its node, and tells the API server how it ended."""

    api: ClusterApi
    world: World
    running: dict[str, tuple[str, subprocess.Popen[bytes], float]] = field(default_factory=dict)
    """By uid: name, process, monotonic time of the stop signal or 0."""
    ended: set[str] = field(default_factory=set)
    codes: Counter[int] = field(default_factory=Counter)
    memory: list[int] = field(default_factory=list)
    """KiB of each pod at each look."""
    active: list[tuple[float, int]] = field(default_factory=list)
    """Pods that have not ended, by time: what KEDA counts."""
    _beat: float = 0.0

    def turn(self, job: dict[str, Any]) -> None:
        """Look once."""
        now = time.monotonic()
        if now - self._beat > 20:
            self._beat = now
            self._keep_node_ready()
        pods = self.api.list_all(POD, "default", label_selector=f"vllm-fleet/batch={ID}")
        self.active.append((now, sum(one["status"].get("phase") not in ("Succeeded", "Failed") for one in pods)))
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if uid in self.running:
                self._look(pod, now)
            elif uid not in self.ended and pod["metadata"].get("deletionTimestamp"):
                self.ended.add(uid)
                self._remove(pod["metadata"]["name"])
            elif uid not in self.ended and pod["spec"].get("nodeName"):
                self._start(pod, job)
        for _, process, _ in self.running.values():
            with contextlib.suppress(OSError):
                self.memory.append(4 * int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]))

    def preempt(self, name: str) -> None:
        """As a disruption does: a condition, then a deletion."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        self._tell(name, {"conditions": [condition]})
        self.api.delete(POD, name, "default")

    def _keep_node_ready(self) -> None:
        at = _now()
        ready = {"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastHeartbeatTime": at}
        amounts = {"cpu": "1000", "memory": "1000Gi", "pods": "5000", "ephemeral-storage": "1000Gi"}
        status = {"conditions": [{**ready, "lastTransitionTime": at}], "capacity": amounts, "allocatable": amounts}
        self.api.patch(NODE, "local", None, {"status": status}, subresource="status")

    def _start(self, pod: dict[str, Any], job: dict[str, Any]) -> None:
        noted = pod["metadata"]["annotations"]
        index = int(noted["batch.kubernetes.io/job-completion-index"])
        failures = int(noted["batch.kubernetes.io/job-index-failure-count"])
        process = self.world.pod(index, job, failures)
        self.running[pod["metadata"]["uid"]] = (pod["metadata"]["name"], process, 0.0)
        self._tell(pod["metadata"]["name"], {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})

    def _look(self, pod: dict[str, Any], now: float) -> None:
        uid, is_deleted = pod["metadata"]["uid"], bool(pod["metadata"].get("deletionTimestamp"))
        name, process, since = self.running[uid]
        if is_deleted and not since:
            process.terminate()
            self.running[uid] = (name, process, now)
        if process.poll() is None:
            if since and now - since > 120 / self.world.speed:
                process.kill()
            return
        del self.running[uid]
        self.ended.add(uid)
        end(process)
        self.world.pods.remove(process)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        self.codes[code] += 1
        over = {"exitCode": code, "startedAt": _now(), "finishedAt": _now()}
        container = {"name": "batch", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        statuses = [{**container, "state": {"terminated": over}}]
        self._tell(name, {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses})
        if is_deleted:
            self._remove(name)

    def _tell(self, name: str, status: dict[str, Any]) -> None:
        with contextlib.suppress(ApiRefusedError):  # It may be gone.
            # As kubelets do: conditions and containers are merged one by one.
            path = f"/api/v1/namespaces/default/pods/{name}/status"
            self.api.raw("PATCH", path, body={"status": status}, content_type="application/strategic-merge-patch+json")

    def _remove(self, name: str) -> None:
        self.api.delete(POD, name, "default", grace_seconds=0)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def conditions(job: dict[str, Any]) -> dict[str, str]:
    """Reasons by type of condition."""
    found = job.get("status", {}).get("conditions", ())
    return {one["type"]: one.get("reason", "") for one in found if one["status"] == "True"}


def play(
    plane: ControlPlane, world: World, manifest: dict[str, Any], turn: Callable[[Kubelet, dict[str, Any]], None]
) -> tuple[dict[str, Any], Kubelet]:
    """Create the Job and run its pods to its end. `turn` is called with each look. Returns the Job and the kubelet."""
    api = plane.api
    api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "local"}})
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "batch", "namespace": "default"}})
    api.create(manifest)
    api.create(config_map_manifest(name="programs", batch=ID, namespace="default", labels={}))
    kubelet = Kubelet(api, world)
    name = manifest["metadata"]["name"]
    try:
        while True:
            job = api.get(JOB, name, "default")
            assert job is not None
            kubelet.turn(manifest)
            if conditions(job).keys() & {"Complete", "Failed"} and not kubelet.running:
                return job, kubelet
            turn(kubelet, job)
            time.sleep(0.1)
    finally:
        api.delete(JOB, name, "default")
        api.delete(CONFIG_MAP, "programs", "default")


class Faults:
    """What fails while a batch runs."""

    def __init__(self, world: World, plane: ControlPlane, seed: int, number: int) -> None:
        """`number`: of faults, spread over the first nine tenths of the shards."""
        self._world, self._api, self._chance = world, plane.api, random.Random(seed)
        self._left = sorted((self._chance.uniform(0.0, 0.9 * world.shards) for _ in range(number)), reverse=True)
        self._resume_at = 0.0
        self._down: dict[int, float] = {}
        self.done = Counter[str]()
        self.seen: list[int] = []
        """Shards that the Job had, at each look."""

    def __call__(self, kubelet: Kubelet, job: dict[str, Any]) -> None:
        """Look at the servers, and perhaps kill something."""
        now, world = time.monotonic(), self._world
        for number, server in list(world.servers.items()):
            if server.poll() is not None:
                self.done["server crashed"] += number not in self._down
                world.kill_server(number)
                self._down[number] = now + self._chance.uniform(0.2, 2.0)
        for number, until in list(self._down.items()):
            if now >= until:
                del self._down[number]
                world.start_server(number)
        done, of = len(numbers_of(job["status"].get("completedIndexes", ""))), job["spec"]["completions"]
        self.seen.append(done)
        if len(self.seen) % 100 == 1:
            sys.stderr.write(f"{done} of {of}, {len(kubelet.running)} pods, {dict(self.done)}\n")
        if self._resume_at and now >= self._resume_at:
            self._resume_at = 0.0
            self._suspend(job, suspend=False)
        if not self._left or done < self._left[-1] or self._resume_at:
            return
        alive = [(name, process) for name, process, since in kubelet.running.values() if not since]
        if not self.done["suspended"] and done > of // 2:
            self._suspend(job, suspend=True)
            self._resume_at, kind = now + 6, "suspended"
        else:
            kind = self._chance.choice(["kill -9"] * 5 + ["preempted"] * 4 + ["server killed", "bucket broken"])
        if kind == "server killed" and world.servers:
            self._chance.choice(list(world.servers.values())).kill()
        elif kind == "bucket broken":
            world.bucket.is_broken = True
            threading.Timer(3.0, setattr, (world.bucket, "is_broken", False)).start()
        elif alive and kind == "preempted":
            kubelet.preempt(self._chance.choice(alive)[0])
        elif alive and kind == "kill -9":
            self._chance.choice(alive)[1].kill()
        if alive or kind not in ("preempted", "kill -9"):
            self._left.pop()
            self.done[kind] += 1

    def _suspend(self, job: dict[str, Any], *, suspend: bool) -> None:
        self._api.patch(JOB, job["metadata"]["name"], "default", {"spec": {"suspend": suspend}})


def under_faults(
    plane: ControlPlane,
    documents: int,
    *,
    seed: int = 7,
    seconds: float = 0.2,
    speed: float = 10.0,
    of_shard: int | None = None,
    faults: int = 60,
) -> dict[str, Any]:
    """One batch to its end; what was seen. `seconds`: of a document, divided by `speed` as the pods' durations are."""
    chance = random.Random(seed)
    places = chance.sample(range(1, documents + 1), 8)
    words = dict(zip(places, [POISON, POISON, RESET, RESET, REFUSED, REFUSED, CRASH, CRASH], strict=True))
    prompts = [f"text {words.get(n, 'good')} {n}" for n in range(1, documents + 1)]
    # As fleet/batch/shards.py cuts.
    of_shard = of_shard or max(32, min(512, documents // 400))
    world = World(
        prompts,
        of_shard=of_shard,
        servers=SERVERS,
        speed=speed,
        bucket_fails=BUCKET_FAILS,
        seconds=seconds / speed,
        at_once=AT_ONCE,
        faults=FAULTS,
    )
    with world:
        failing = Faults(world, plane, seed, faults)
        began = time.monotonic()
        job, kubelet = play(plane, world, world.job(servers=SERVERS), failing)
        took = time.monotonic() - began
        # A line that is missing or there twice raises.
        errors = world.errors()
    tenth = max(1, len(kubelet.memory) // 10)
    early, late = (
        statistics.median(part) / 1024 for part in (kubelet.memory[tenth : 2 * tenth], kubelet.memory[-2 * tenth :])
    )
    least = [count for at, count in kubelet.active if at > began + 15 and count]
    return {
        "documents": documents,
        "shards": world.shards,
        "seed": seed,
        "job": conditions(job),
        "eachLineOnce": True,
        "errors": dict(Counter(errors.values())),
        "onlyPlanted": errors.keys() == words.keys(),
        "others": sorted(errors.keys() - words.keys()),
        "faults": dict(failing.done),
        "exitCodes": dict(sorted(kubelet.codes.items())),
        "seconds": round(took, 1),
        "perSecond": round(documents / took, 1),
        "statusOnlyRises": failing.seen == sorted(failing.seen),
        "leftForTheLastShard": len(world.has("later")),
        "checkpointsLeft": len(world.has("checkpoints")),
        "podsThatKedaCounts": {"least": min(least, default=0), "most": max(count for _, count in kubelet.active)},
        "secondsWithoutPod": round(_longest_zero(kubelet.active), 1),
        "memoryMib": {"early": round(early, 1), "late": round(late, 1), "most": round(max(kubelet.memory) / 1024, 1)},
    }


def _longest_zero(active: list[tuple[float, int]]) -> float:
    """Longest time without a pod that has not ended: after its cooldown KEDA would take the servers."""
    longest = since = 0.0
    for at, count in active:
        since = 0.0 if count else since or at
        longest = max(longest, at - since if since else 0.0)
    return longest


def direct(endpoint: str, source: Path, to: Path, in_flight: int) -> None:
    """The loop to compare with: threads, a connection for each request, no second attempt, no checkpoint."""
    sending, lock = Endpoint(endpoint, URL, key=None, connect_seconds=10, request_seconds=600), threading.Lock()
    with source.open("rb") as file, to.open("wb") as out:

        def work() -> None:
            while True:
                with lock:
                    text = next(file, None)
                if text is None:
                    return
                given = json.loads(text)
                outcome = sending.send(json.dumps(given["body"]).encode())
                response = {"status_code": outcome.status, "request_id": outcome.request_id, "body": outcome.body}
                line = {"id": given["n"], "custom_id": given["custom_id"], "response": response, "error": None}
                with lock:
                    out.write(json.dumps(line).encode() + b"\n")

        threads = [threading.Thread(target=work) for _ in range(in_flight)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def overhead(folder: Path, documents: int, *, rounds: int, seconds: float, of_shard: int) -> dict[str, Any]:
    """Four pods at a time over all shards, beside four direct loops over a quarter of the documents each: same server, same in flight."""
    found: dict[str, list[float]] = {"seconds": [], "processor": []}
    in_flight = AT_ONCE * 5 // 16
    for number in range(rounds):
        prompts = [f"text good {n}" for n in range(documents)]
        with World(prompts, of_shard=of_shard, speed=1.0, seconds=seconds, at_once=AT_ONCE) as world:
            job = world.job(in_flight=in_flight)
            lines = b"".join(world.bucket.objects[name].content for name in world.has("shards")).splitlines(True)
            loops: list[Callable[[], subprocess.Popen[bytes]]] = []
            for quarter in range(4):
                (folder / f"{quarter}.jsonl").write_bytes(b"".join(lines[quarter::4]))
                words = ["-m", __spec__.name, "direct", world.endpoint, str(folder / f"{quarter}.jsonl")]
                words += [str(folder / f"{quarter}.out"), str(in_flight)]
                loops.append(lambda words=words: started(words))  # type: ignore[misc]
            pods: list[Callable[[], subprocess.Popen[bytes]]] = [
                lambda index=index, job=job, world=world: world.pod(index, job)  # type: ignore[misc]
                for index in range(world.shards + 1)
            ]
            turns = {kind: _timed(pods if kind else loops) for kind in ((True, False) if number % 2 else (False, True))}
            assert not world.errors()
        for key, place in (("seconds", 0), ("processor", 1)):
            found[key].append(turns[True][place] / turns[False][place])
        sys.stderr.write(f"{turns}\n")
    spread = {
        key: {"median": round(statistics.median(of), 3), "least": round(min(of), 3), "most": round(max(of), 3)}
        for key, of in found.items()
    }
    return {"documents": documents, "shards": world.shards, "inFlight": 4 * in_flight, "rounds": rounds, **spread}


def _timed(starts: list[Callable[[], subprocess.Popen[bytes]]]) -> tuple[float, float]:
    """Seconds and processor seconds of all, four at a time."""
    began, before, running, left = time.monotonic(), os.times(), list[subprocess.Popen[bytes]](), list(starts)
    while left or running:
        while left and len(running) < 4:
            running.append(left.pop(0)())
        for process in [one for one in running if one.poll() is not None]:
            running.remove(process)
            assert process.returncode == 0
        time.sleep(0.01)
    after = os.times()
    return (
        time.monotonic() - began,
        after.children_user + after.children_system - before.children_user - before.children_system,
    )


def main() -> int:
    """Run what the command line says."""
    if sys.argv[1:2] == ["direct"]:
        direct(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
        return 0
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["faults", "overhead"])
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a document")
    parser.add_argument("--speed", type=float, default=10.0)
    parser.add_argument("--of-shard", type=int)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.what == "overhead":
        with tempfile.TemporaryDirectory() as folder:
            found = overhead(
                Path(folder),
                given.documents,
                rounds=given.rounds,
                seconds=given.seconds,
                of_shard=given.of_shard or 128,
            )
    else:
        with ControlPlane(binaries(lambda _: None)) as plane:
            found = under_faults(
                plane,
                given.documents,
                seed=given.seed,
                seconds=given.seconds,
                speed=given.speed,
                of_shard=given.of_shard,
                faults=given.faults,
            )
    sys.stdout.write(f"{json.dumps(found, indent=1)}\n")
    return 0 if found.get("onlyPlanted", True) else 1


if __name__ == "__main__":
    sys.exit(main())
