"""A batch to its end: servers from zero and back, a lost client, a lost server, and a limit that is reached half way.

The clients are the stack's own program, for the pods of a real Job. Servers hold answers back until the drill lets them out, so that
"half way" is the same on every machine, and checks read what the bucket and the servers recorded.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Any, Final

from facts.cost import SECONDS_PER_HOUR
from facts.texts import plural
from lab.cloud.spot import preempt
from lab.cloud.world import has_ended
from lab.control_plane.api import JOB, PERSISTENT_VOLUME_CLAIM, POD
from lab.drills.conditions import all_of
from lab.drills.drill import Drill, Proof
from settings.derived.scaling import scaling_policy
from workloads.batch.job import CLIENT_IMAGE, config_map_manifest, job_manifest, job_name
from workloads.names import BATCH_APP

if TYPE_CHECKING:
    from lab.control_plane.api import Manifest
    from lab.stage.batch_pods import BatchPods, Write
    from lab.stage.stage import Stage
    from settings.stack import Settings

DOCUMENTS: Final = 160
PER_SHARD: Final = 8
HALF_WAY: Final = 60
"""Answers after which the servers hold the others back: no multiple of a shard, so that shards are open."""
MOST_SERVERS: Final = 2
USD: Final = 40.0
"""Price of a server-hour in the drills."""
PATIENCE_SECONDS: Final = 86_400.0
"""Longest answer that clients wait for: the drill holds answers back, and that shall be no time-out."""
WORK_SECONDS: Final = 3_600.0
"""How long a batch may take with all servers Ready."""
LIMIT_SECONDS: Final = 120.0
"""Work of all servers that the limit pays for, beside their start and end, by the clients' clock."""
REPORTS: Final = 12
"""Reports of a batch's progress within which each lease is renewed: six times as long as a renewal takes."""
END_SECONDS: Final = 1_800.0
"""From the last result to no client pod."""


@dataclass(frozen=True)
class _Batch:
    """One batch in the stack's bucket."""

    stage: Stage
    pods: BatchPods
    id: str
    servers: int
    """Wanted."""

    @property
    def job(self) -> str:
        """Name of its Job."""
        return job_name(self.id)

    @property
    def folder(self) -> str:
        """Beginning of its objects' names."""
        return f"batches/{self.id}/"

    def put(self, name: str, content: Any) -> None:
        """Write one of its objects, as `fleet batch run` does."""
        self.pods.bucket.put(f"{self.folder}{name}", json.dumps(content).encode())

    def get(self, name: str) -> Any:
        """One of its objects; None without it."""
        found = self.pods.bucket.objects.get(f"{self.folder}{name}")
        return None if found is None else json.loads(found.content)

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        """All lines of its objects of these kinds."""
        wanted = tuple(f"{self.folder}{kind}/" for kind in kinds)
        with self.pods.bucket.lock:
            found = [stored for name, stored in self.pods.bucket.objects.items() if name.startswith(wanted)]
        return [json.loads(line) for stored in found for line in stored.content.splitlines()]

    def stored(self) -> set[str]:
        """Ids of documents whose lines are in the bucket."""
        return {line["custom_id"] for line in self.lines("parts", "results")}

    def written(self, kind: str) -> list[Write]:
        """Every version of its objects of this kind, in order."""
        return [one for one in list(self.pods.bucket.history) if one.name.startswith(f"{self.folder}{kind}")]

    def progress(self) -> list[tuple[float, Any]]:
        """Every report of its progress, and when it was written."""
        return [(one.at_seconds, json.loads(one.content)) for one in self.written("progress.json")]


def _filled(stage: Stage) -> _Batch:
    """A batch of documents in the bucket, without a Job."""
    policy = scaling_policy(stage.settings)
    assert policy is not None, "the drill is skipped without one"
    pods = stage.batch
    batch = _Batch(stage, pods, f"b{len(pods.bucket.history):012x}", min(policy.max, MOST_SERVERS))
    model = stage.settings.serving.model.id
    for shard in range(0, DOCUMENTS, PER_SHARD):
        lines = [json.dumps(_document(batch, model, n)) for n in range(shard + 1, shard + PER_SHARD + 1)]
        name = f"{batch.folder}shards/{shard // PER_SHARD:05d}.jsonl"
        pods.bucket.put(name, "".join(f"{line}\n" for line in lines).encode())
    shards = DOCUMENTS // PER_SHARD
    batch.put(
        "batch.json",
        {
            "version": 1,
            "id": batch.id,
            "name": "rehearsal",
            "url": "/v1/chat/completions",
            "model": model,
            "documents": DOCUMENTS,
            "shards": shards,
            "counts": [PER_SHARD] * shards,
        },
    )
    return batch


def _document(batch: _Batch, model: str, n: int) -> dict[str, Any]:
    custom_id = f"{batch.id}-document-{n}"
    request = batch.stage.traffic.load.request
    # The prompt is the id: servers record prompts.
    body = {
        "model": model,
        "messages": [{"role": "user", "content": custom_id}],
        "max_tokens": request.output_tokens,
    }
    return {"n": n, "custom_id": custom_id, "body": body}


def _launch(batch: _Batch, servers: int, max_usd: float | None = None) -> float:
    """Write the terms and create the Job, as `fleet batch run` does; returns when."""
    stage = batch.stage
    terms = {
        "began": batch.pods.clock.time(),
        "servers": servers,
        "deadline": None,
        "maxUsd": max_usd,
        "usdPerServerHour": USD,
        "usdPerHourFixed": 0.0,
        "startSeconds": stage.timings.whole_start_seconds,
        "idleSeconds": stage.settings.placement.idle_seconds,
        "requestSeconds": PATIENCE_SECONDS,
        "onDone": "pause",
    }
    batch.put("terms.json", terms)
    settings, outputs = stage.settings, stage.outputs
    common: Mapping[str, Any] = {"name": batch.job, "batch": batch.id, "namespace": stage.namespace, "labels": {}}
    job = job_manifest(
        **common,
        servers=servers,
        server=settings.server.name,
        key_store=settings.api_key_store,
        endpoint=outputs["endpoint"],
        bucket=batch.pods.bucket.name,
        image=CLIENT_IMAGE,
        status_port=settings.status_port,
    )
    began = stage.clock.now_seconds()
    stage.api.apply(config_map_manifest(**common))
    stage.api.apply(job)
    stage.timeline.note("operator", batch.job, f"fleet batch run: {plural(servers, 'server')}")
    return began


def _started(stage: Stage, answers: float) -> tuple[_Batch, float]:
    """A batch whose servers let so many answers out; and when it began."""
    batch = _filled(stage)
    stage.traffic.let(answers)
    return batch, _launch(batch, batch.servers)


def _half_way(batch: _Batch) -> set[str]:
    """Wait until answers are stored; ids of their documents."""
    stage = batch.stage
    seen = partial(_said, batch)
    limit = stage.timings.whole_start_seconds * 2 + WORK_SECONDS
    stage.until("answers half way", lambda: len(_answers(batch)) >= HALF_WAY, limit, seen)
    # Not all: where a client has lost a lease, its last answers were for nothing.
    stage.until("the answers to be stored", lambda: len(batch.stored()) > HALF_WAY / 2, WORK_SECONDS, seen)
    stored = _undisturbed(batch, batch.stored())
    stage.timeline.note("operator", batch.job, f"{len(batch.stored())} of {DOCUMENTS} documents have their lines")
    return stored


def _answers(batch: _Batch) -> list[str]:
    """Ids of this batch's documents that servers answered, in order."""
    return [prompt for prompt in batch.stage.traffic.answered() if prompt.startswith(f"{batch.id}-")]


def _finish(batch: _Batch) -> None:
    """Let all answers out and wait for the end of the Job."""
    batch.stage.traffic.let(float("inf"))
    _until_over(batch)


def _until_over(batch: _Batch) -> None:
    limit = batch.stage.timings.whole_start_seconds * 2 + WORK_SECONDS
    ended = batch.stage.until("the Job's end", lambda: _condition(batch), limit, lambda: _said(batch))
    batch.stage.until("no client pod", lambda: not _clients(batch), END_SECONDS)
    batch.stage.timeline.note("operator", batch.job, f"the Job is {ended}", mood="good")


def _condition(batch: _Batch) -> str:
    """How the Job ended; empty while it runs."""
    job = batch.stage.api.get(JOB, batch.job, batch.stage.namespace) or {}
    found = (job.get("status") or {}).get("conditions") or ()
    return next((one["type"] for one in found if one["type"] in ("Complete", "Failed") and one["status"] == "True"), "")


def _pods(batch: _Batch) -> list[Manifest]:
    """Pods of its Job."""
    return [pod for pod in batch.stage.pods(BATCH_APP) if pod["metadata"]["name"].startswith(f"{batch.job}-")]


def _clients(batch: _Batch) -> list[Manifest]:
    """Client pods that neither have ended nor are being deleted."""
    return [pod for pod in _pods(batch) if not has_ended(pod) and "deletionTimestamp" not in pod["metadata"]]


def _said(batch: _Batch) -> str:
    """What is known of a batch that does not go on."""
    return "; ".join(
        [
            f"{len(batch.stored())} of {DOCUMENTS} documents are stored",
            f"progress: {batch.get('progress.json')}",
            f"clients: {[pod['status'].get('phase') for pod in _pods(batch)]}",
            *batch.pods.troubles[-1:],
        ]
    )


def _each_once(batch: _Batch, proof: Proof) -> None:
    """Check the results against the documents."""
    lines = batch.lines("results")
    found = Counter(line["custom_id"] for line in lines)
    wanted = {f"{batch.id}-document-{n}" for n in range(1, DOCUMENTS + 1)}
    twice, missing, strange = sum(number > 1 for number in found.values()), wanted - set(found), set(found) - wanted
    proof.check(
        "every document has one line",
        not (twice or missing or strange),
        f"{len(lines)} lines for {DOCUMENTS} documents: {twice} twice, {len(missing)} missing, {len(strange)} unknown",
    )
    good = [line for line in lines if line["error"] is None and line["response"]["status_code"] == 200]
    codes = Counter(line["error"]["code"] for line in lines if line["error"])
    proof.check("every line is an answer", len(good) == len(lines), ", ".join(map(str, codes.items())) or "all are")
    mixed = [line for line in good if line["id"] != f"{batch.id}-{line['custom_id'].rpartition('-')[2]}"]
    proof.check("every line has its own document's id", not mixed, plural(len(mixed), "mixed line"))
    summary = batch.get("summary.json") or {}
    told = summary.get("documents"), summary.get("succeeded")
    proof.check(
        "the summary counts the lines", told == (len(wanted), len(good)), f"{told[0]} documents, {told[1]} succeeded"
    )
    proof.check("the Job is complete", _condition(batch) == "Complete", _condition(batch) or "it runs")


def _not_again(batch: _Batch, proof: Proof, stored: set[str]) -> None:
    """Check that what was stored was not asked again."""
    again = [one for one, number in Counter(_answers(batch)).items() if number > 1 and one in stored]
    empty = "" if stored else "every lease was lost once, as on a very busy machine"
    proof.check(
        "no stored document is asked again", not again, f"{len(again)} of {len(stored)} stored ones", empty=empty
    )


def _undisturbed(batch: _Batch, documents: set[str]) -> set[str]:
    """Those of shards that no client has taken from another so far."""
    holders = {shard: len(set(found)) for shard, found in _held(batch).items()}
    return {one for one in documents if holders.get((int(one.rpartition("-")[2]) - 1) // PER_SHARD) == 1}


def _held(batch: _Batch) -> dict[int, list[bytes]]:
    """Holders of each shard's lease, in order, renewals included."""
    holders: dict[int, list[bytes]] = {}
    for one in batch.written("leases/"):
        holders.setdefault(int(one.name.rpartition("/")[2]), []).append(one.content)
    return holders


def _to_zero_again(batch: _Batch, proof: Proof) -> None:
    """Check that nothing is rented after a batch, and nothing was before its end."""
    stage = batch.stage
    stage.until("the servers to go", lambda: stage.meter.servers.now == 0, END_SECONDS)
    stage.until_empty()
    proof.check("no server and no GPU is left", stage.meter.gpus.now == 0, f"{stage.meter.gpus.now} GPUs")


def _to_zero(stage: Stage, proof: Proof) -> None:
    claims = _claims(stage)
    before = stage.meter.servers.now
    batch, began = _started(stage, float("inf"))
    _until_over(batch)
    ended = batch.written("results/")[-1].at_seconds
    first = next(at for at, told in batch.progress() if told["done"])
    waited = [told for at, told in batch.progress() if at < first and told["state"] == "waiting"]
    _each_once(batch, proof)
    proof.check("no server runs before", before == 0, plural(before, "server"))
    proof.check("documents wait while there is none", bool(waited), plural(len(waited), "report"))
    most = stage.meter.servers.highest(began)
    proof.check(f"{plural(batch.servers, 'server')} at most", most == batch.servers, f"{most} servers")
    ready = stage.meter.ready_servers.first_at(batch.servers, began)
    proof.check(
        "as many as were planned are Ready", ready is not None, f"at most {stage.meter.ready_servers.highest(began)}"
    )
    last = batch.get("progress.json")
    proof.check("its progress says done", last["state"] == "done", str(last["state"]))
    _to_zero_again(batch, proof)
    steps = stage.meter.servers.steps
    fewer = next(at for at, number in steps if at > (ready or began) and number < batch.servers)
    seen = f"{fewer - ended:.0f} s after it"
    proof.check("no server goes before the last line is stored", fewer >= ended, seen)
    gone = stage.meter.gpu_nodes.gone_at(ended)
    proof.check("the weights stay", claims <= _claims(stage), f"{len(_claims(stage))} claims")
    proof.figure("all servers Ready after", round(((ready or ended) - began) / 60, 1), "min")
    proof.figure("from the last line to the last node", round((gone - ended) / 60, 1), "min", "idle nodes are removed")


def _claims(stage: Stage) -> set[str]:
    return {one["metadata"]["uid"] for one in stage.api.list_all(PERSISTENT_VOLUME_CLAIM, stage.namespace)}


def _client_dies(stage: Stage, proof: Proof) -> None:
    batch, _ = _started(stage, HALF_WAY)
    stored = _half_way(batch)
    # Open shards are held while their answers wait.
    last = len(batch.progress()) + REPORTS
    stage.until("the leases to be renewed", lambda: _renewed(batch) or len(batch.progress()) > last, WORK_SECONDS)
    proof.check("each lease is renewed", _renewed(batch), plural(len(_leases(batch)), "lease"))
    victim = next(pod for pod in _clients(batch) if pod["metadata"]["name"].startswith(f"{batch.job}-0-"))
    name, began = victim["metadata"]["name"], stage.clock.now_seconds()
    lost = _leases(batch)
    stage.timeline.note("pod", name, "killed, with the batch's keeper", mood="bad")
    stage.api.delete(POD, name, stage.namespace, grace_seconds=0)
    stage.until("the end of its program", lambda: any(pod == name for pod, _ in batch.pods.exits), WORK_SECONDS)
    _finish(batch)
    _each_once(batch, proof)
    _not_again(batch, proof, stored)
    keeps = [told["done"] for _, told in batch.progress()]
    proof.check("its progress never goes back", keeps == sorted(keeps), f"{keeps[0]} to {keeps[-1]} documents")
    lowest = stage.meter.servers.within(began)[0]
    proof.check("its servers stay", lowest == batch.servers, f"{lowest} of {batch.servers}")
    proof.figure("shards in work when it died", len(lost))
    proof.figure(
        "documents asked twice", len(_answers(batch)) - DOCUMENTS, "", "in flight, or answered since the last part"
    )


def _leases(batch: _Batch) -> set[str]:
    """Names of its leases."""
    with batch.pods.bucket.lock:
        return {name for name in batch.pods.bucket.objects if name.startswith(f"{batch.folder}leases/")}


def _renewed(batch: _Batch) -> bool:
    """Whether each lease was written by the same holder twice."""
    held = _held(batch)
    shards = [int(name.rpartition("/")[2]) for name in _leases(batch)]
    return all(any(map(eq, held[shard], held[shard][1:])) for shard in shards)


def _server_preempted(stage: Stage, proof: Proof) -> None:
    batch, _ = _started(stage, HALF_WAY)
    stored = _half_way(batch)
    stage.until_ready(batch.servers)
    busy = stage.until("open requests", lambda: _busiest(stage), WORK_SECONDS, lambda: _said(batch))
    victims = [str(next(pod["spec"]["nodeName"] for pod in stage.ready_pods() if pod["metadata"]["name"] == busy))]
    began = stage.clock.now_seconds()
    preempt(stage.world, victims)
    stage.until("the node to be gone", lambda: not any(map(stage.world.nodes.get, victims)), 600)
    stage.until("fewer servers", lambda: stage.meter.ready_servers.lowest(began) < batch.servers, 600)
    ready, limit = stage.meter.ready_servers, 2 * stage.timings.whole_start_seconds
    stage.until("a server in its place", lambda: ready.now == batch.servers or _condition(batch), limit)
    seen = f"{ready.now} of {batch.servers} Ready"
    proof.check("another server takes its place", ready.now == batch.servers, seen)
    cut = sum(ending.ending.cut for ending in stage.traffic.fleet.endings if ending.at_seconds >= began)
    _finish(batch)
    _each_once(batch, proof)
    _not_again(batch, proof, stored)
    proof.check("requests are cut with it", cut > 0, f"{cut} of {DOCUMENTS} documents")
    proof.check(
        "the Job's pods do not end for it", not batch.pods.troubles, "; ".join(batch.pods.troubles) or "none ended"
    )
    _to_zero_again(batch, proof)


def _busiest(stage: Stage) -> str:
    """The server with the most open requests; empty without any."""
    number, name = max(((number, name) for name, number in stage.traffic.in_flight().items()), default=(0, ""))
    return name if number else ""


def _limit(stage: Stage, proof: Proof) -> None:
    batch = _filled(stage)
    stage.traffic.let(HALF_WAY)
    reserve = stage.settings.placement.idle_seconds
    paid = stage.timings.whole_start_seconds + reserve + LIMIT_SECONDS
    limit = batch.servers * USD * paid / SECONDS_PER_HOUR
    _launch(batch, batch.servers, limit)
    _until_over(batch)
    stop, left, stored = batch.get("stop.json"), batch.get("progress.json"), batch.stored()
    proof.check("it stops for the limit", (stop or {}).get("reason") == "max-usd", str(stop))
    proof.check("its progress says stopped", left["state"] == "stopped", str(left["state"]))
    proof.check("its estimate is within the limit", left["usd"] <= limit, f"${left['usd']:,.2f} of ${limit:,.2f}")
    proof.check("documents are left over", len(stored) < DOCUMENTS, f"{len(stored)} of {DOCUMENTS} have their lines")
    answered = _undisturbed(batch, set(_answers(batch)))
    proof.check("every answer is kept", answered <= stored, f"{len(answered - stored)} of {len(answered)} are lost")
    stored = _undisturbed(batch, stored)
    proof.check("no lease is left", not _leases(batch), plural(len(_leases(batch)), "lease"))
    _to_zero_again(batch, proof)

    stage.api.delete(JOB, batch.job, stage.namespace)
    stage.until("the old Job to go", lambda: not _pods(batch), END_SECONDS)
    with batch.pods.bucket.lock:
        del batch.pods.bucket.objects[f"{batch.folder}stop.json"]
    stage.traffic.let(float("inf"))
    servers = batch.servers - 1 or 1
    began = _launch(batch, servers, 10 * limit)
    _until_over(batch)
    _each_once(batch, proof)
    _not_again(batch, proof, stored)
    most = stage.meter.servers.highest(began)
    empty = "" if batch.servers > 1 else "server.scaling.max is 1"
    proof.check("it goes on with another number of servers", most == servers, plural(most, "server"), empty=empty)
    _to_zero_again(batch, proof)


def _runs_batches(settings: Settings) -> str:
    """Only where servers run for batches."""
    return "" if settings.scales_by_batch and settings.batch.enabled else "server.scaling.mode is not batch"


def _is_interruptible(settings: Settings) -> str:
    return "" if settings.placement.interruptible else "this capacity gets no Spot notice"


DRILLS = (
    Drill(
        name="batch-to-zero",
        title="A batch from zero servers to zero",
        proves="documents wait for servers, each gets one line, and servers go when the last is stored, the weights stay",
        play=_to_zero,
        skip=_runs_batches,
    ),
    Drill(
        name="batch-client-dies",
        title="A client of a batch is killed half way",
        proves="another client goes on with its documents, and no stored one is asked again",
        play=_client_dies,
        skip=_runs_batches,
    ),
    Drill(
        name="batch-server-preempted",
        title="A Spot node of a batch is preempted",
        proves="its open requests are asked again, no line is an error, and servers are replaced",
        play=_server_preempted,
        skip=all_of(_runs_batches, _is_interruptible),
    ),
    Drill(
        name="batch-limit",
        title="A batch reaches its limit and goes on later",
        proves="it stops within the limit, keeps every answer, and goes on with another number of servers",
        play=_limit,
        skip=_runs_batches,
    ),
)
