"""A comparison with one of everything, for the reports' tests."""

from __future__ import annotations

from dataclasses import replace

from fleet.preview.compare.changes import (
    BlastRadius,
    Changes,
    Danger,
    Delta,
    PropertyChange,
    ReplaceReason,
    ResourceChange,
)
from fleet.preview.policy import Violation
from fleet.preview.policy_config import Level, PolicyState
from fleet.preview.record.recording import urn_of
from fleet.preview.report.model import Policies, Report
from fleet.preview.report.several_stacks import Refusal
from tests.fleet.preview.sample_report import PROJECT, STACK, sample_recording, sample_report

SCRIPT_BEFORE = "#!/bin/sh\nset -e\ngit clone $MODEL\nsync\n"
SCRIPT_AFTER = "#!/bin/sh\nset -eu\ngit clone $MODEL\nsync\nsha256sum -c\n"


def change(kind: str, name: str, parent: str, operation: str = "same", **fields: object) -> ResourceChange:
    urn = urn_of(stack=STACK, project=PROJECT, parent=parent, type_=kind, name=name)
    values = {
        "urn": urn,
        "old_urn": "" if operation == "create" else urn,
        "type": kind,
        "name": name,
        "parent": parent,
        "custom": not kind.startswith("vllm-fleet:") and kind != "pulumi:pulumi:Stack",
        "operation": operation,
    }
    return ResourceChange(**(values | fields))  # type: ignore[arg-type]


def edited(path: str, before: object, after: object, kind: str = "changed", *, secret: bool = False) -> PropertyChange:
    return PropertyChange(path=path, kind=kind, before=before, after=after, secret=secret)  # type: ignore[arg-type]


def sample_changes(**fields: object) -> Changes:
    """The sample recording against another state: every operation, kind of difference and certainty is in it."""
    by_name = {one.name: one for one in sample_recording().resources}
    stack, platform, server = (by_name[name].urn for name in (f"{PROJECT}-{STACK}", "platform", "server"))
    apis = [change("gcp:projects/service:Service", f"platform-{one}", platform, "update",
                   properties=(edited("labels.team", None, "serving", "added"),))
            for one in ("compute", "container", "iam", "logging")]  # fmt: skip
    volume = "kubernetes:core/v1:PersistentVolumeClaim"
    resources = (
        change("pulumi:pulumi:Stack", f"{PROJECT}-{STACK}", ""),
        change("vllm-fleet:infra:OwnPlatform", "platform", stack),
        change("vllm-fleet:workloads:Server", "server", stack),
        *apis,
        change(
            "pulumi:providers:kubernetes",
            "platform-kubernetes",
            platform,
            "update",
            properties=(edited("kubeconfig", "[secret]", "[secret]", "may change", secret=True),),
        ),
        change(
            "kubernetes:apps/v1:Deployment",
            "server-deployment",
            server,
            "replace",
            old_urn=urn_of(
                stack=STACK, project=PROJECT, parent=server, type_="kubernetes:apps/v1:Deployment", name="server-pods"
            ),
            properties=(
                edited("spec.replicas", 12, 8),
                edited("spec.selector.matchLabels.app", "qwen35-server", "qwen35"),
                edited(
                    "spec.template.spec.containers[vllm].image",
                    "docker.io/vllm/vllm-openai:v0.18.0@sha256:" + "a" * 64,
                    "docker.io/vllm/vllm-openai:v0.18.1@sha256:" + "b" * 64,
                ),
                edited("spec.template.spec.containers[vllm].args[--max-num-seqs]", "8192", None, "removed"),
            ),
            options=(edited("protect", True, False),),
            reasons=(
                ReplaceReason(
                    path="spec.selector.matchLabels.app",
                    certainty="Kubernetes immutable field",
                    source="Deployment.spec.selector, apps/v1",
                ),
            ),
            delete_first=True,
        ),
        change("kubernetes:core/v1:Secret", "server-token", server),
        change(
            "kubernetes:core/v1:ConfigMap",
            "weights-download",
            server,
            "update",
            properties=(edited("data[download.sh]", SCRIPT_BEFORE, SCRIPT_AFTER),),
        ),
        change("kubernetes:core/v1:Service", "server-extra", server, "create"),
        change(
            volume,
            "weights-reader",
            server,
            "replace",
            properties=(edited("spec.volumeAttributesClassName", "[unknown]", "fast", "may change"),),
            reasons=(
                ReplaceReason(
                    path="spec.volumeAttributesClassName",
                    certainty="guess",
                    source="volumes are rarely mutable",
                    maybe=True,
                ),
            ),
        ),
        change(volume, "weights-old", server, "delete"),
    )
    values = {
        "against": "main (1a2b3c4d)",
        "resources": resources,
        "outputs": (edited("endpoint", "http://old:8000", "http://qwen35-server:8000"),),
        "effects": (
            "All 12 replicas (96 GPUs) go down together, for about 11 minutes",
            "2 weights volumes replaced or deleted",
            "4 replicas removed; at least $392.25 becomes at least $261.80 an hour",
        ),
        "dangers": (
            Danger(id="all-replicas-at-once", message="The Deployment is replaced: every replica stops before the first "
                   "new one starts.", urns=(by_name["server-deployment"].urn,)),
            Danger(id="weights-volume-lost", message="weights-old is deleted; copying the weights again takes hours."),
        ),
        "deltas": (
            Delta(id="usd-per-hour", label="USD an hour", unit="USD an hour", before=392.25, after=261.80,
                  before_at_least=True, after_at_least=True),
            Delta(id="usd-per-million-tokens", label="USD per million tokens", unit="USD per million tokens", before=0.099, after=0.1),
            Delta(id="tokens-per-second", label="tokens a second, published or measured", unit="tok/s", before=1_103_941, after=None),
            Delta(id="gpus", label="GPUs", unit="", before=96, after=64),
            Delta(id="nodes", label="nodes", unit="", before=12, after=8),
            Delta(id="clusters", label="clusters", unit="", before=1, after=1),
        ),
        "blast_radius": BlastRadius(
            replicas_restarted=8,
            replicas_removed=4,
            gpus_restarted=64,
            minutes_of_reduced_capacity=11.0,
            assumption="a replica takes 11 minutes to load its weights and answer",
        ),
        "remarks": ("The program of main was run in a worktree of its own.",),
    }  # fmt: skip
    return Changes(**(values | fields))  # type: ignore[arg-type]


MANDATORY = Violation(
    policy="no-surge-on-gpu-pods",
    level="mandatory",
    urn=next(one.urn for one in sample_recording().resources if one.name == "server-deployment"),
    message="A rollout never needs a spare eight-GPU node.\nspec.strategy.rollingUpdate.maxSurge is 1; "
    "at stake: $391.32 an hour (12 A4 nodes, Spot)\n"
    "why: a surge pod waits for a node that does not exist\nwrite: maxSurge: 0, maxUnavailable: 1",
    description="A rollout never needs a spare eight-GPU node.",
    severity="high",
)
ADVISORY = tuple(
    Violation(
        policy="declared-needs-missing",
        level="advisory",
        urn=f"urn:pulumi:{STACK}::{PROJECT}::kubernetes:apps/v1:Deployment::{name}",
        message="A vLLM pod declares what it must serve.\nthe annotation context-tokens is missing\n"
        "why: nothing else tells how long its prompts are\nwrite: annotate the pod",
        description="A vLLM pod declares what it must serve.",
        severity="low",
    )
    for name in ("chat", "code")
)
REFUSAL = Refusal(stack="guest", message="Stack 'guest': 1 setting cannot be used.\n\nvllm-fleet:x: refused")
JUDGED = Policies(state="judged", violations=(MANDATORY, *ADVISORY))


def state(name: str, own: Level, level: Level | None = None, **settings: object) -> PolicyState:
    """A policy, disabled or lowered by the sample stack's file where the levels differ."""
    by = "" if level in (None, own) else FILE
    return PolicyState(name=name, own=own, level=level or own, by=by, settings=settings, given=tuple(settings))


FILE = f"policy/config/{STACK}.json"
SWITCHED_OFF = Policies(
    state="judged",
    violations=ADVISORY,
    states=(
        state(MANDATORY.policy, "mandatory", "disabled"),
        state("image-latest", "mandatory", "advisory"),
        state("hourly-cost-above-ceiling", "mandatory", maxUsdPerHour=900),
        state(ADVISORY[0].policy, "advisory"),
    ),
    file=FILE,
)
"""A stack whose limits disable a rule and lower another."""


def compared_report(changes: Changes | None = None, policies: Policies = JUDGED, **sections: object) -> Report:
    """The sample report with a comparison."""
    return replace(sample_report(policies=policies, **sections), comparison=changes or sample_changes())  # type: ignore[arg-type]


def unchanged_report() -> Report:
    """The sample report compared with itself."""
    stack, *_ = sample_changes().resources
    resources = (stack, change("vllm-fleet:workloads:Server", "server", stack.urn))
    deltas = (Delta(id="gpus", label="GPUs", unit="", before=96, after=96),)
    return compared_report(
        sample_changes(resources=resources, outputs=(), dangers=(), effects=("Nothing changes",), deltas=deltas)
    )
