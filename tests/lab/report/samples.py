"""SAMPLES, written by hand for the reports' tests: no rehearsal gave these numbers."""

from __future__ import annotations

from facts.finding import Finding
from lab.report.model import RehearsalReport, Versions
from lab.results.result import DrillResult, Figure, Retained

TOKEN = "hf_never_shown"
URN = "urn:pulumi:spot::vllm-fleet::vllm-fleet:workloads:Weights$kubernetes:core/v1:PersistentVolumeClaim::weights-reader-b"


def check(statement: str, *, held: bool, seen: str) -> Finding:
    return Finding(id="check", subject=statement, severity="passed" if held else "error", found=seen)


def bring_up() -> DrillResult:
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
        figures=(Figure(name="resources created", value=61),),
        findings=(
            Finding(
                id="api-warning",
                severity="warning",
                subject=URN,
                found="the claim was Pending before anything read it; Pulumi waits 10 minutes at most",
                write='annotate it pulumi.com/skipAwait: "true", or let it depend on its class',
            ),
        ),
        wall_seconds=43.2,
    )


def preempt_four() -> DrillResult:
    return DrillResult(
        name="preempt-four",
        title="Four Spot nodes are preempted at the same time",
        proves="four replicas are replaced; a disruption budget does not stop a preemption",
        checks=(
            check("each lost replica is replaced, on a new node", held=True, seen="12 Ready"),
            check("8 of 12 replicas stay Ready", held=True, seen="at least 8 Ready"),
            check("never more than 96 GPUs at the same time", held=True, seen="at most 96"),
        ),
        figures=(Figure(name="replicas lost", value=4),),
        wall_seconds=21.4,
    )


def stock_out() -> DrillResult:
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
        findings=(
            Finding(
                id="operation-failed",
                subject="Deployment/qwen35-server",
                found="the pod stays Pending: no zone but europe-west4-b is configured",
                write="add a second zone to capacity.zones, or a ComputeClass with flex-start below Spot",
            ),
        ),
        wall_seconds=20.7,
    )


def late_class() -> DrillResult:
    return DrillResult(
        name="late-compute-class",
        title="GKE installs the ComputeClass kind late",
        proves="pulumi up applies everything else, and the next one completes the stack",
        checks=(),
        figures=(),
        gave_up="waited 150 s for 12 Ready replicas; 0 of 12 are Ready",
        wall_seconds=85.0,
    )


def to_zero() -> DrillResult:
    return DrillResult(
        name="to-zero",
        title="External scaling to zero and back",
        proves="with external replicas, pulumi up does not change the number",
        checks=(),
        skipped="the stack's replicas are fixed",
    )


def rolling_update(servers: int = 128) -> DrillResult:
    return DrillResult(
        name="rolling-update",
        title="A new revision of the weights on scarce GPUs",
        proves="a new volume is created beside the old one, and replicas are updated one at a time, without a spare node",
        checks=(check(f"{servers} replicas on {servers} nodes", held=True, seen=f"at most {servers} nodes"),),
        wall_seconds=28.0,
    )


def sample_report(*drills: DrillResult) -> RehearsalReport:
    """A sample: passes and fails, in every way that the reports have to show."""
    return RehearsalReport(
        project="vllm-fleet",
        stack="spot",
        versions=Versions(
            pulumi="v3.274.1",
            provider="v4.24.0",
            wanted_provider="v4.34.2",
            kubernetes="v1.36.3",
            kwok="v0.8.0",
            etcd="3.6.6",
        ),
        wall_seconds=372.4,
        drills=drills or (bring_up(), stock_out(), preempt_four(), late_class(), to_zero(), rolling_update()),
        retained=(
            Retained(kind="Image", name="weights-qwen3-5-27b-fp8-2e1b213", why="deletionPolicy: Retain"),
            Retained(kind="Bucket", name="vllm-fleet-spot-results", why="retain_on_delete", note="free when empty"),
        ),
    )
