"""First, second and interrupted `pulumi up`, and `pulumi destroy`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from facts.texts import plural
from fleet.preview.record.recording import needs_of
from lab.control_plane.api import DEPLOYMENT, JOB, PERSISTENT_VOLUME, SECRET
from lab.drills.conditions import needs_servers
from lab.drills.drill import Drill, Proof
from lab.engine.options import SKIP_PREVIEW, UPSERT
from lab.nodes.labels import GPU_LABEL, ZONE

if TYPE_CHECKING:
    from lab.stage.stage import Stage
    from lab.stage.update_report import UpReport


def _bring_up(stage: Stage, proof: Proof) -> None:
    """Check the bring-up of the running stage, which has ended when this is played."""
    report = stage.history.first_report
    proof.findings.extend(report.findings)
    servers, machine = stage.servers, stage.settings.machine
    machines = stage.machines_for(servers)
    early = _out_of_order(stage, report)
    proof.check("every resource starts after its dependencies", not early, early or f"{len(report.created)} resources")
    nodes = Counter(pod["spec"]["nodeName"] for pod in stage.ready_pods())
    gpu_nodes = [node for node in stage.nodes.all() if GPU_LABEL in node["metadata"]["labels"]]
    proof.check(
        f"{plural(servers, 'replica')} on {plural(machines, 'node')}",
        len(nodes) == machines == len(gpu_nodes),
        f"{plural(len(stage.ready_pods()), 'replica')}, {plural(len(nodes), 'node')} in use, {len(gpu_nodes)} created",
    )
    zones = sorted({node["metadata"]["labels"][ZONE] for node in gpu_nodes})
    proof.check(
        "every GPU node is in one of the stack's zones",
        set(zones) <= set(stage.settings.zones),
        ", ".join(zones) or "none created",
        empty="" if zones else "no GPU node was created",
    )
    most = stage.meter.gpus.highest()
    paid = machines * machine.gpus
    proof.check(f"never more than {paid} GPUs at the same time", most <= paid, f"at most {most}")
    proof.check(
        "every call stays on this machine",
        not stage.registry.refused,
        ", ".join(sorted(set(stage.registry.refused))) or "no other host was asked for",
    )
    proof.figure("resources created", len(report.created))


def _out_of_order(stage: Stage, report: UpReport) -> str:
    for resource in stage.base.resources:
        started = report.started.get(resource.urn)
        for need in needs_of(resource):
            ended = report.finished.get(need)
            if started is not None and ended is not None and started < ended:
                return f"{resource.name} started before {need.rpartition('::')[2]} was ready"
    return ""


def _second_up(stage: Stage, proof: Proof) -> None:
    before = stage.fingerprints()
    report = stage.up()
    proof.succeeds("pulumi up succeeds", report)
    after = stage.fingerprints()
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    proof.check(
        "a second pulumi up changes nothing",
        not changed and not (report.created or report.updated or report.replaced or report.deleted),
        ", ".join(changed) or f"{len(report.unchanged)} resources unchanged",
    )


def _restarted_api_server(stage: Stage, proof: Proof) -> None:
    with stage.up_in_background() as running:
        stage.until_applying(running)
        stage.until("a third of the resources", lambda: stage.applied_share() >= 1 / 3)
        stage.control_plane.restart_api_server(down_seconds=1.0)
        first = running.result()
    _recover(stage, proof)
    proof.figure("resources that failed first", len(first.failed), "applied by the second pulumi up")


def _killed_up(stage: Stage, proof: Proof) -> None:
    with stage.up_in_background() as running:
        stage.until_applying(running)
        stage.until("a Job or a Deployment that pulumi up waits for", lambda: _under_way(stage))
        stage.updates.kill()
        running.result()
    pending = sorted(urn.rpartition("::")[2] for urn in stage.updates.state(stage.stack).pending)
    proof.figure("pending creates in the state", len(pending), ", ".join(pending))
    locked = stage.up()
    proof.check(
        "a pulumi up fails at once: the killed one's lock is left",
        any("locked" in text for text in locked.failed.values()),
        "; ".join(locked.failed.values()) or "no failure",
    )
    stage.updates.pulumi.unlock(stage.stack)
    before = _under_way(stage)
    _recover(stage, proof)
    after = _under_way(stage)
    proof.check(
        "Jobs and Deployments in progress are adopted, not recreated", before <= after, f"{len(before)} adopted"
    )


def _under_way(stage: Stage) -> set[str]:
    """UIDs of Jobs and Deployments; a stack without a weights writer has no Job before its Deployment."""
    found = (*stage.api.list_all(JOB, stage.namespace), *stage.api.list_all(DEPLOYMENT, stage.namespace))
    return {one["metadata"]["uid"] for one in found}


def _recover(stage: Stage, proof: Proof) -> None:
    """The steps of docs/first-up.md after an interrupted `pulumi up`."""
    refreshed = stage.updates.refresh(stage.stack, "--clear-pending-creates", SKIP_PREVIEW)
    failures = "; ".join(refreshed.failures.values())
    proof.check("pulumi refresh succeeds", refreshed.succeeded, failures or "no failure")
    for secret in stage.api.list_all(SECRET, stage.namespace, label_selector="owner=helm"):
        if secret["metadata"]["labels"]["status"].startswith("pending-"):
            stage.api.delete(SECRET, secret["metadata"]["name"], stage.namespace)
    recovered = stage.up(upsert=True)
    proof.succeeds(f"{next(iter(UPSERT))}=true pulumi up succeeds", recovered)
    stage.until_ready(stage.settings.replicas)
    further = stage.up()
    proof.check(
        "the end state matches the program: another pulumi up changes nothing",
        not (further.created or further.updated or further.replaced or further.deleted or further.failed),
        f"{len(further.unchanged)} resources unchanged",
    )
    twice = [name for name, count in Counter(_object_names(stage)).items() if count > 1]
    proof.check("no object exists twice", not twice, ", ".join(twice) or "every object once")


def _object_names(stage: Stage) -> list[str]:
    return [f"{object_['kind']}/{object_['metadata']['name']}" for object_ in stage.applied_objects()]


def _destroy(stage: Stage, proof: Proof) -> None:
    if stage.settings.cluster.deletion_protection and stage.settings.owns_platform:
        _protected(stage, proof)
        stage.up({"cluster": {"deletionProtection": False}})
    report = stage.destroy()
    proof.retained.extend(report.retained)
    proof.succeeds("pulumi destroy succeeds", report)
    proof.check(
        "it leaves only what the program retains",
        not report.unexpected,
        ", ".join(report.unexpected) or f"{len(report.retained)} retained",
    )
    pods = [pod["metadata"]["name"] for pod in stage.pods()]
    proof.check("no replica remains", not pods, ", ".join(pods) or "none")
    disks = [volume["metadata"]["name"] for volume in stage.api.list_all(PERSISTENT_VOLUME)]
    proof.check("no billed disk remains", not disks, ", ".join(disks) or "none")
    stage.until_empty()
    proof.check("no GPU node remains", stage.meter.gpu_nodes.now == 0, f"{stage.meter.gpu_nodes.now} nodes")


def _protected(stage: Stage, proof: Proof) -> None:
    """A destroy while the cluster is protected, with and without a preview."""
    refused = stage.destroy()
    proof.check(
        "pulumi destroy fails while cluster.deletionProtection is true, and deletes nothing",
        bool(refused.failed) and not refused.deleted,
        next(iter(refused.failed.values()), f"{len(refused.deleted)} resources deleted"),
    )
    before = stage.fingerprints()
    forced = stage.destroy(SKIP_PREVIEW)
    lost = sorted(before.keys() - stage.fingerprints().keys())
    proof.check(
        "pulumi destroy --skip-preview (-f) fails too, and deletes nothing",
        bool(forced.failed) and not forced.deleted and not lost,
        ", ".join(lost) or next(iter(forced.failed.values()), "no failure"),
    )


DRILLS = (
    Drill(
        name="bring-up",
        title="First pulumi up",
        proves="the stack comes up in dependency order, its replicas on nodes of its machine type and zones",
        play=_bring_up,
    ),
    Drill(
        name="second-up",
        title="A second pulumi up",
        proves="a second pulumi up changes nothing",
        play=_second_up,
    ),
    Drill(
        name="restarted-api-server",
        title="The API server restarts during pulumi up",
        proves="a second pulumi up completes what the interrupted one left",
        play=_restarted_api_server,
        start="empty",
        skip=needs_servers(),
    ),
    Drill(
        name="killed-up",
        title="pulumi up is killed while waiting",
        proves="the next pulumi up fails on the lock, and after the steps of the guide another adopts what exists",
        play=_killed_up,
        start="empty",
        skip=needs_servers(),
    ),
    Drill(
        name="destroy",
        title="pulumi destroy",
        proves="pulumi destroy leaves only what the program retains",
        play=_destroy,
        spends_stage=True,
    ),
)
