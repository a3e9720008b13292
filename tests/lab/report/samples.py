"""SAMPLES, written by hand for the reports' tests: no rehearsal gave these numbers."""

from __future__ import annotations

from collections.abc import Iterator

from facts.finding import Finding
from lab.report.model import RehearsalReport, Versions
from lab.results.result import DrillResult, Figure, Retained
from lab.results.timeline import Lane, Moment, Mood

TOKEN = "hf_never_shown"
URN = "urn:pulumi:spot::vllm-fleet::vllm-fleet:workloads:Weights$kubernetes:core/v1:PersistentVolumeClaim::weights-reader-b"


def check(statement: str, *, held: bool, seen: str) -> Finding:
    return Finding(id="check", subject=statement, severity="passed" if held else "error", found=seen)


def stretch(lane: Lane, subject: str, text: str, since: float, until: float, mood: Mood = "plain") -> Moment:
    return Moment(lane=lane, subject=subject, text=text, at_seconds=since, until_seconds=until, mood=mood)


def moment(lane: Lane, subject: str, text: str, at: float, mood: Mood = "plain") -> Moment:
    return Moment(lane=lane, subject=subject, text=text, at_seconds=at, mood=mood)


def node(number: int) -> str:
    return f"gk3-spot-a4-highgpu-8g-{number:04x}"


def pod(number: int, generation: str = "7c9f6d5b8") -> str:
    return f"qwen35-server-{generation}-{number:05x}"


APPLIED = (
    ("Namespace/vllm", 0, 2),
    ("ResourceQuota/gpu", 2, 3),
    ("ServiceAccount/vllm-server", 2, 3),
    ("ServiceAccount/benchmark", 2, 3),
    ("ServiceAccount/weights-writer", 2, 3),
    *((f"NetworkPolicy/{name}", 3, 5) for name in ("benchmark", "client-pods", "default-deny", "every-pod", "server")),
    ("ConfigMap/weights-download", 3, 4),
    ("StorageClass/vllm-weights-4800mibps-b", 3, 4),
    ("StorageClass/vllm-weights-writer-400mibps", 3, 4),
    ("PersistentVolumeClaim/weights-writer", 5, 70),
    ("Job/weights-qwen3-5-27b-fp8", 70, 980),
    ("VolumeSnapshot/weights-qwen3-5-27b-fp8", 980, 1180),
    ("PersistentVolumeClaim/weights-reader-b", 1180, 1320),
    ("Service/qwen35-server", 5, 30),
    ("PodDisruptionBudget/qwen35-server", 5, 7),
    ("Deployment/qwen35-server", 1320, 2380),
)


def _server(number: int, asked: float, ready: float, until: float, generation: str = "7c9f6d5b8") -> Iterator[Moment]:
    machine = asked + 330 + number * 3 % 240
    yield stretch("node", node(number), "a4-highgpu-8g Spot starting", asked, machine, "waiting")
    yield stretch("node", node(number), "Ready", machine, until, "good")
    yield stretch("pod", pod(number, generation), "waiting for a node", asked, machine, "waiting")
    yield stretch("pod", pod(number, generation), "starting", machine, ready, "waiting")
    yield stretch("pod", pod(number, generation), "Ready", ready, until, "good")


def bring_up() -> DrillResult:
    end = 2400.0
    moments = [
        moment("apply", "Google Cloud", "41 resources expected, none exists", 0),
        *(stretch("apply", name, "created", since, until, "good") for name, since, until in APPLIED),
        moment("capacity", "a4-highgpu-8g spot", "12 asked for", 1321, "waiting"),
        stretch("volume", "weights-writer", "disk made: hyperdisk-ml 64 GiB", 40, 70, "good"),
        stretch("volume", "weights-qwen3-5-27b-fp8", "image taken", 980, 1180, "good"),
        stretch("volume", "weights-reader-b", "disk made: hyperdisk-ml 64 GiB, 12 readers", 1200, 1320, "good"),
        stretch("pod", "weights-qwen3-5-27b-fp8-x7k2p", "starting", 200, 260, "waiting"),
        stretch("pod", "weights-qwen3-5-27b-fp8-x7k2p", "Ready", 260, 975, "good"),
        *(one for number in range(12) for one in _server(number, 1321, 2290 + number * 7, end)),
    ]
    return DrillResult(
        name="bring-up",
        title="First pulumi up",
        proves="the stack comes up in dependency order",
        checks=(
            check("every resource starts after its dependencies", held=True, seen="61 resources"),
            check(
                "12 replicas on 12 nodes",
                held=True,
                seen="12 replicas, 12 nodes in use, 12 created",
            ),
            check("never more than 96 GPUs at the same time", held=True, seen="at most 96"),
        ),
        figures=(
            Figure(
                name="all replicas Ready after",
                value=39.5,
                unit="min",
                note="simulated, from the first Kubernetes object",
            ),
            Figure(name="pulumi up ends after", value=39.7, unit="min"),
            Figure(name="wait for Job/weights-qwen3-5-27b-fp8", value=15.2, unit="min"),
        ),
        findings=(
            Finding(
                id="api-warning",
                severity="warning",
                subject=URN,
                found="the claim was Pending for 2 simulated minutes before anything read it; Pulumi waits 10 minutes at most",
                write='annotate it pulumi.com/skipAwait: "true", or let it depend on its class',
            ),
        ),
        moments=tuple(moments),
        wall_seconds=43.2,
        simulated_seconds=end,
    )


def preempt_four() -> DrillResult:
    began, end, notice = 3000.0, 4150.0, 3030.0
    moments: list[Moment] = []
    for number in range(12):
        lost = number < 4
        until = notice + 30 if lost else end
        moments.append(stretch("node", node(number), "Ready", began, notice if lost else end, "good"))
        moments.append(stretch("pod", pod(number), "Ready", began, notice if lost else end, "good"))
        if lost:
            moments += [
                moment("node", node(number), "preempted: 30 s notice", notice, "bad"),
                stretch("node", node(number), "not Ready", notice, until, "bad"),
                moment("node", node(number), "gone", until, "bad"),
                stretch("pod", pod(number), "terminating: its node shuts down", notice, notice + 15, "bad"),
                stretch("pod", pod(number), "failed", notice + 15, until, "bad"),
                stretch("traffic", pod(number), "Spot notice: 5 of 6 streams cut", notice, notice + 5, "bad"),
                *_server(number + 12, notice + 18, 4100 + number * 5, end),
            ]
    moments += [
        moment("capacity", "a4-highgpu-8g spot", "4 asked for", notice + 18, "waiting"),
        stretch(
            "traffic",
            "requests",
            "24 lost: 3 refused, 4 cut before the first token, 17 cut mid-stream",
            3030,
            3060,
            "bad",
        ),
    ]
    return DrillResult(
        name="preempt-four",
        title="Four Spot nodes are preempted at the same time",
        proves="four replicas are replaced; a disruption budget does not stop a preemption",
        checks=(
            check("each lost replica is replaced, on a new node", held=True, seen="12 Ready"),
            check("8 of 12 replicas stay Ready", held=True, seen="at least 8 Ready"),
            check("never more than 96 GPUs at the same time", held=True, seen="at most 96"),
        ),
        figures=(
            Figure(name="replicas lost", value=4),
            Figure(name="all Ready again after", value=18.1, unit="min", note="new node, weights, engine start"),
            Figure(
                name="requests lost without a retry",
                value=24,
                note="3 refused, 4 cut before the first token, 17 cut mid-stream",
            ),
            Figure(name="requests lost with one retry", value=0, note="none"),
            Figure(name="streams cut, of those in flight", value="84%", note="of 25 in the sample; 78% by arithmetic"),
            Figure(
                name="streams cut per ended server at the published load",
                value=1920,
                note="the sample's losses scaled to 2,000 in flight, computed; arithmetic alone: 1,569 streams cut",
            ),
            Figure(
                name="advice to clients",
                value="Repeat a request once, on another connection, when it was refused or its response was aborted.",
            ),
        ),
        moments=tuple(moments),
        wall_seconds=21.4,
        simulated_seconds=end - began,
    )


def stock_out() -> DrillResult:
    began, end = 5000.0, 6200.0
    moments = [
        *(stretch("pod", pod(number), "Ready", began, end, "good") for number in range(12)),
        *(stretch("node", node(number), "Ready", began, end, "good") for number in range(12)),
        moment("capacity", "spot", "no capacity for more than 12 Spot nodes", began, "bad"),
        moment("operator", "qwen35-server", "kubectl scale --replicas=13", began + 5),
        stretch("pod", pod(12), "waiting for a node", began + 6, end, "waiting"),
        moment(
            "capacity", "stock-out", "1 pod waits: the zone has no Spot capacity for a4-highgpu-8g", began + 70, "bad"
        ),
    ]
    return DrillResult(
        name="stock-out",
        title="Capacity runs out",
        proves="a quota and a shortage each report why a replica does not start",
        checks=(
            check(
                "the quota refuses another replica",
                held=True,
                seen="exceeded quota: gpu, requested: 8, used: 96, limited: 96",
            ),
            check("the message names a fix", held=False, seen=f"0/12 nodes are available (token {TOKEN})"),
        ),
        figures=(Figure(name="pending for", value=19.9, unit="min"),),
        findings=(
            Finding(
                id="operation-failed",
                subject="Deployment/qwen35-server",
                found="the pod stays Pending: no zone but europe-west4-b is configured",
                write="add a second zone to capacity.zones, or a ladder with flex-start below Spot",
            ),
        ),
        moments=tuple(moments),
        wall_seconds=20.7,
        simulated_seconds=end - began,
    )


def reservation() -> DrillResult:
    return DrillResult(
        name="inactive-reservation",
        title="The calendar reservation's window has not begun",
        proves="replicas wait for the window and start with it",
        checks=(),
        figures=(),
        moments=(moment("capacity", "b200-week", "the window has not begun", 10, "waiting"),),
        gave_up="waited 40 simulated minutes for 12 Ready replicas; 0 of 12 are Ready",
        wall_seconds=85.0,
        simulated_seconds=2400.0,
    )


def gateway_skipped() -> DrillResult:
    return DrillResult(
        name="gateway-without-subnet",
        title="The gateway without its proxy-only subnet",
        proves="a missing subnet or API is reported as a clear condition",
        checks=(),
        skipped="the stack has no gateway",
    )


def scale_up(servers: int = 128) -> DrillResult:
    moments: list[Moment] = [moment("capacity", "a4-highgpu-8g spot", f"{servers} asked for", 10, "waiting")]
    for number in range(servers):
        moments += _server(number, 10, 900 + (number * 37) % 400, 1400)
    return DrillResult(
        name="scale-up-in-time",
        title="Load grows while replicas start",
        proves="replicas are Ready before requests wait",
        checks=(check(f"{servers} replicas on {servers} nodes", held=True, seen=f"at most {servers} nodes"),),
        figures=(
            Figure(name="control plane", value=3.1, unit="s of wall time"),
            Figure(name="pulumi up", value=14.8, unit="s of wall time"),
            Figure(name="last replica Ready", value=8.2, unit="s of wall time"),
        ),
        moments=tuple(moments),
        wall_seconds=28.0,
        simulated_seconds=1400.0,
    )


def sample_report(*drills: DrillResult) -> RehearsalReport:
    """A sample: passes and fails, in every way that the reports have to show."""
    return RehearsalReport(
        project="vllm-fleet",
        stack="spot",
        versions=Versions(pulumi="v3.259.0", kubernetes="v1.36.3", kwok="v0.8.0", etcd="3.6.6"),
        speed=60.0,
        wall_seconds=372.4,
        drills=drills or (bring_up(), stock_out(), preempt_four(), reservation(), gateway_skipped(), scale_up()),
        retained=(
            Retained(
                kind="Image", name="weights-qwen3-5-27b-fp8-2e1b213", why="deletionPolicy: Retain", usd_per_month=3.2
            ),
            Retained(
                kind="Bucket",
                name="vllm-fleet-spot-results",
                why="retain_on_delete",
                usd_per_month=None,
                note="depends on its content",
            ),
        ),
    )
