"""Two stacks in one Google Cloud project, and on one cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from facts.texts import plural
from fleet.preview.offline import record_stack
from fleet.preview.record.synthesis import Cloud, outputs_of
from lab.drills.conditions import all_of, needs_servers, owns_platform
from lab.drills.drill import Drill, Proof
from lab.stage.updates import SKIP_PREVIEW

if TYPE_CHECKING:
    from fleet.preview.record.recording import Recording
    from lab.stage.stage import Stage

GUEST_SERVER: Final = "guest-server"
"""Differs from the host's: the meters tell replicas apart by this name."""
_SERVICE: Final = "gcp:projects/service:Service"
"""Enabled APIs are the project's, shared by both stacks and never disabled."""


def _two_stacks(stage: Stage, proof: Proof) -> None:
    secrets = _secrets_of_the_project(stage)
    _apart_in_google_cloud(proof, stage.record(secrets), stage.another(secrets))
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    # Paused: volumes, claims and cluster-wide objects are created; a node would show nothing more.
    guest = stage.guest({"server": {"name": GUEST_SERVER, "replicas": 0}})
    recorded = record_stack(guest, "known")
    both = sorted(_cluster_wide(stage.base) & _cluster_wide(recorded))
    proof.check(
        "a guest shares no cluster-wide name with its host",
        not both,
        ", ".join(both) or f"{len(_cluster_wide(recorded))} names, its namespace included",
    )
    before = stage.fingerprints()
    report = stage.updates.up(stage.updates.write(guest), SKIP_PREVIEW)
    proof.findings.extend(report.findings)
    proof.check(
        "the guest comes up beside its host",
        not report.failed,
        "; ".join(report.failed.values()) or plural(len(report.created), "resource"),
    )
    gone = stage.updates.destroy(guest.file.stack, SKIP_PREVIEW)
    proof.check(
        "the guest is destroyed", not gone.failed, "; ".join(gone.failed.values()) or f"{len(gone.deleted)} deleted"
    )
    after = stage.fingerprints()
    touched = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    proof.check(
        "the host's objects, claims and classes are unchanged",
        not touched,
        ", ".join(touched) or f"{len(after)} objects unchanged",
    )
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check("the host stays Ready", lowest == servers, f"at least {lowest} of {servers} Ready")


def _secrets_of_the_project(stage: Stage) -> dict[str, Any]:
    """Sections that let both stacks read the same secrets: grants on shared resources could collide."""
    settings = stage.settings
    wanted = {
        "weights": {} if settings.hf_token_store else {"tokenSecret": "hf-token"},
        "server": {} if settings.api_key_store else {"apiKeySecret": "vllm-api-key"},
    }
    return {section: change for section, change in wanted.items() if change}


def _apart_in_google_cloud(proof: Proof, mine: Recording, theirs: Recording) -> None:
    names, others = (dict(_in_google_cloud(one)) for one in (mine, theirs))
    both = sorted(names.keys() & others.keys())
    for grants, statement in (
        (False, "a second platform stack in the project uses no name of the first"),
        (True, "it shares no grant with the first: destroying it removes none"),
    ):
        shared = [one for one in both if ("member" in names[one]) == grants]
        count = sum(("member" in inputs) == grants for inputs in others.values())
        proof.check(statement, not shared, ", ".join(shared) or f"{count}, none shared")


def _in_google_cloud(recording: Recording) -> Iterator[tuple[str, Any]]:
    """A stack's Google Cloud resources by provider id; budgets have none, as Google generates theirs."""
    cloud = Cloud.of(recording.project, recording.stack, {})
    for resource in recording.resources:
        if resource.type.startswith("gcp:") and resource.type != _SERVICE:
            path, _ = outputs_of(resource.type, resource.name, resource.inputs, cloud)
            if path:
                yield f"{resource.type.rpartition(':')[2]} {path}", resource.inputs


def _cluster_wide(recording: Recording) -> set[str]:
    return {
        f"{resource.inputs['kind']}/{resource.inputs['metadata']['name']}"
        for resource in recording.resources
        if resource.type.startswith("kubernetes:")
        and "namespace" not in resource.inputs.get("metadata", {"namespace": ""})
    }


DRILLS = (
    Drill(
        name="two-stacks",
        title="Two stacks in one project and on one cluster",
        proves="they share no name, grant, object or claim: creating and destroying one does not affect the other",
        play=_two_stacks,
        skip=all_of(needs_servers(), owns_platform),
    ),
)
