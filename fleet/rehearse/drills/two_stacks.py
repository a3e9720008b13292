"""Two stacks of one program in one project: what Google Cloud has of each, and both on one cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from fleet.preview.record.synthesis import Cloud, outputs_of
from fleet.rehearse.apply.manifests import is_object
from fleet.rehearse.drills.conditions import all_of, needs_servers, owns_platform
from fleet.rehearse.drills.drill import Drill, Proof
from fleet.report.words import plural

if TYPE_CHECKING:
    from fleet.preview.record.recording import Recording
    from fleet.rehearse.stage import Stage

GUEST_SERVER: Final = "guest-server"
"""Another name than the host's: the instruments tell servers apart by it."""
_SERVICE: Final = "gcp:projects/service:Service"
"""An API is the project's, and both stacks leave it on: the one thing that they have in common."""


def _two_stacks(stage: Stage, proof: Proof) -> None:
    secrets = _secrets_of_the_project(stage)
    _apart_in_google_cloud(proof, stage.record(secrets), stage.another(secrets))
    servers, began = stage.settings.replicas, stage.clock.now_seconds()
    # Paused: its volume, its claims and whatever belongs to the cluster are made; a machine for it would show nothing more.
    guest = stage.guest({"server": {"name": GUEST_SERVER, "replicas": 0}})
    both = sorted(_cluster_wide(stage.base) & _cluster_wide(guest))
    proof.check(
        "a guest takes no name of its host's that belongs to the whole cluster",
        not both,
        ", ".join(both) or f"{len(_cluster_wide(guest))} names of its own, its namespace among them",
    )
    before = stage.fingerprints()
    report = stage.applier.up(guest)
    proof.findings.extend(report.findings)
    proof.check(
        "the guest comes up beside its host",
        not report.failed,
        "; ".join(report.failed.values()) or plural(len(report.state.objects), "object"),
    )
    gone = stage.applier.destroy(report.state)
    proof.check("the guest goes", not gone.failed, "; ".join(gone.failed.values()) or f"{len(gone.deleted)} deleted")
    after = stage.fingerprints()
    touched = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    proof.check(
        "the host's objects, claims and classes are as they were",
        not touched,
        ", ".join(touched) or f"{len(after)} objects untouched",
    )
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check("the host serves all the while", lowest == servers, f"at worst {lowest} of {servers} Ready")


def _secrets_of_the_project(stage: Stage) -> dict[str, Any]:
    """Both stacks read the same secrets of the project: grants on what belongs to neither are where two stacks meet."""
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
        (False, "a second owning stack in the project asks for no name that the first has"),
        (True, "it holds no grant that the first holds: destroying it takes none away"),
    ):
        shared = [one for one in both if ("member" in names[one]) == grants]
        count = sum(("member" in inputs) == grants for inputs in others.values())
        proof.check(statement, not shared, ", ".join(shared) or f"{count} of its own")


def _in_google_cloud(recording: Recording) -> Iterator[tuple[str, Any]]:
    """What a stack has in Google Cloud, by the path that the provider knows it by; a budget's is drawn by Google."""
    cloud = Cloud.of(recording.project, recording.stack, {})
    for one in recording.resources:
        if one.type.startswith("gcp:") and one.type != _SERVICE:
            path, _ = outputs_of(one.type, one.name, one.inputs, cloud)
            if path:
                yield f"{one.type.rpartition(':')[2]} {path}", one.inputs


def _cluster_wide(recording: Recording) -> set[str]:
    return {
        f"{one.inputs['kind']}/{one.inputs['metadata']['name']}"
        for one in recording.resources
        if is_object(one) and "namespace" not in one.inputs["metadata"]
    }


DRILLS = (
    Drill(
        name="two-stacks",
        title="A second stack in the project, and on the cluster",
        proves="two stacks share no name, grant, object or claim: one comes and goes, and the other does not notice",
        play=_two_stacks,
        skip=all_of(needs_servers(), owns_platform),
    ),
)
