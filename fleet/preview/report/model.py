"""The preview's report as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from facts.figures import Routing
from facts.finding import Finding
from fleet.preview.policy_config import STOPS
from fleet.preview.record.recording import (
    STACK_REFERENCE_TYPE,
    STACK_TYPE,
    Diagnostic,
    Mode,
    RecordedResource,
    Recording,
)
from fleet.preview.record.redact import Redactor
from fleet.report.words import CLASS_RESERVATION
from settings.derived.spending import bounds
from settings.sections.capacity import Calendar, ComputeClassMode, Reservation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.plan.modelled import Modelled
    from fleet.preview.compare.changes import Changes
    from fleet.preview.policy import Violation
    from fleet.preview.policy_config import PolicyState
    from settings.derived.figures import Figures
    from settings.derived.spending import Bound
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Summary of the stack."""

    model: str
    revision: str
    vllm: str
    profile: str
    reproduces: str | None
    family: str
    """Of the machines, e.g. "A4"."""
    gpu: str
    """Its name, e.g. "B200"."""
    gpus_per_node: int
    nodes: int | None
    """None if managed externally."""
    fewest_nodes: int | None = None
    """Nodes at the minimum of the stack's autoscaler; `nodes` is then the maximum."""
    gpus: int | None
    capacity: str
    zones: tuple[str, ...]
    routing: Routing
    """Routing of the requests to the nodes."""
    platform: str | None
    """The stack that owns the cluster, if not this one."""
    project: str
    stand_in_project: bool
    shape: str = ""
    """How prefill is apart from decode; empty where it is not."""
    canary: str = ""
    """Canary pods and their release; empty without a canary."""

    @property
    def bought(self) -> str:
        """How its nodes are had, behind their number: `on Spot`, `on demand`."""
        return self.capacity if self.capacity == "on demand" else f"on {self.capacity}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What became of the policy pack."""

    state: Literal["none", "skipped", "judged"]
    """`none`: the project has no pack. `skipped`: --no-policy. `judged`: see the violations."""
    violations: tuple[Violation, ...] = ()
    states: tuple[PolicyState, ...] = ()
    """Every policy as the stack's configuration leaves it."""
    file: str = ""
    """Path of that configuration."""

    @property
    def mandatory(self) -> tuple[Violation, ...]:
        """Violations that block an update."""
        return tuple(violation for violation in self.violations if violation.level in STOPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole preview of a stack."""

    recording: Recording
    remarks: tuple[str, ...]
    """What the reader should know about this preview itself."""
    diagnostics: tuple[Diagnostic, ...]
    """Warnings and errors of the program, apart from the findings it repeats."""
    policies: Policies
    out: str | None = None
    """Folder of the manifests, if written."""
    fleet: Fleet
    figures: Figures
    dangers: tuple[str, ...]
    """What costs money at once, cannot be undone or opens the fleet to others."""
    findings: tuple[Finding, ...]
    notices: tuple[Finding, ...]
    bounds: tuple[Bound, ...] = ()
    """What the stack costs at most, where a spending limit makes that true."""
    modelled: Modelled | None = None
    """The planner's estimate, where no published figure holds for the stack; None also where the model has no answer."""
    comparison: Changes | None = None
    """Differences from another state of the stack; None without a comparison."""

    @property
    def mode(self) -> Mode:
        """Treatment of unknown values."""
        return self.recording.mode

    @property
    def created(self) -> tuple[RecordedResource, ...]:
        """What a first update creates: all but the stack references, which are only read."""
        return tuple(one for one in self.recording.resources if one.type != STACK_REFERENCE_TYPE)

    @property
    def counted(self) -> Mapping[str, int]:
        """Resources by sort: cloud resources, components, providers, the stack."""
        return Counter(map(_sort, self.created))


def build_report(
    settings: Settings,
    recording: Recording,
    figures: Figures,
    *,
    problems: Sequence[Finding] = (),
    policies: Policies,
    stand_in_project: bool = False,
    environments: str = "",
    secret_keys: Sequence[str] = (),
    comparison: Changes | None = None,
    out: str | None = None,
) -> Report:
    """The report of one recorded stack."""
    repeated = {_one_line(problem.text()) for problem in problems}
    redactor = Redactor(recording.plaintexts)
    modelled = _modelled(settings, figures)
    if comparison is not None:
        # Imported here: a preview that compares nothing does not need it.
        from fleet.preview.report.consequences import with_consequences

        comparison = redactor.whole(with_consequences(comparison, settings, recording, figures, modelled))
    about = (f"{one.message[0].upper()}{one.message[1:]}." for one in _about_references(recording))
    remarks = (*_remarks(settings, stand_in_project, environments, secret_keys), *about)
    notices = tuple(one for one in problems if one.severity == "note")
    return Report(
        recording=recording,
        remarks=tuple(map(redactor.text, remarks)),
        diagnostics=tuple(
            replace(diagnostic, message=redactor.text(diagnostic.message))
            for diagnostic in recording.diagnostics
            if diagnostic.severity != "info" and _one_line(diagnostic.message) not in repeated
        ),
        policies=redactor.whole(_rated(policies, notices)),
        out=out,
        fleet=_fleet(settings, stand_in_project),
        figures=figures,
        bounds=bounds(settings),
        modelled=modelled,
        dangers=tuple(_dangers(settings)),
        findings=tuple(one for one in problems if one.severity in ("warning", "deliberate")),
        notices=notices,
        comparison=comparison,
    )


def _rated(policies: Policies, notices: Sequence[Finding]) -> Policies:
    """With the severity of the stack file's check where both say the same: what is a note there is no warning."""
    noted = {finding.id for finding in notices}
    return replace(
        policies,
        violations=tuple(
            replace(one, rated="note") if one.level == "advisory" and one.policy in noted else one
            for one in policies.violations
        ),
    )


def _modelled(settings: Settings, figures: Figures) -> Modelled | None:
    if figures.proven:
        return None
    from fleet.plan.modelled import modelled

    return modelled(settings)


def _about_references(recording: Recording) -> Iterator[Diagnostic]:
    """Sources of other stacks' outputs."""
    read = {resource.urn for resource in recording.resources if resource.type == STACK_REFERENCE_TYPE}
    return (
        diagnostic for diagnostic in recording.diagnostics if diagnostic.severity == "info" and diagnostic.urn in read
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _fleet(settings: Settings, stand_in_project: bool) -> Fleet:
    serving, external = settings.serving, settings.own_replicas is None and settings.server.scaling.mode == "none"
    return Fleet(
        model=serving.model.id,
        revision=serving.model.revision,
        vllm=settings.serving.image.tag.removeprefix("v"),
        profile=serving.profile.name,
        reproduces=serving.profile.reproduces,
        family=settings.machine.family.upper(),
        gpu=settings.machine.gpu.name,
        gpus_per_node=settings.machine.gpus,
        nodes=None if external else settings.nodes,
        gpus=None if external else settings.gpus,
        fewest_nodes=settings.nodes_for(settings.server.scaling.min) if settings.is_scaled else None,
        capacity=_capacity(settings),
        zones=settings.zones,
        routing=settings.routing,
        platform=settings.platform.stack or settings.platform.kubeconfig,
        project=settings.project,
        stand_in_project=stand_in_project,
        shape=_shape(settings),
        canary=_canary(settings),
    )


def _shape(settings: Settings) -> str:
    shape = settings.server.shape
    return "" if shape is None else f"prefill on {shape.prefill_gpus} and decode on {shape.decode_gpus} GPUs of a pod"


def _canary(settings: Settings) -> str:
    if settings.canary is None:
        return ""
    what = f"vLLM {settings.canary.image.tag.removeprefix('v')} @ {settings.canary.model.revision[:12]}"
    return f"1 of the replicas a canary ({what})"


def _capacity(settings: Settings) -> str:
    capacity = settings.capacity
    if isinstance(capacity, Reservation):
        years = {"cud-1y": ", 1-year commitment", "cud-3y": ", 3-year commitment"}.get(capacity.commitment, "")
        return f"reservation {capacity.name}{years}"
    if isinstance(capacity, Calendar):
        return f"calendar reservation {capacity.reservation}"
    return {"on-demand": "on demand", "spot": "Spot", "flex-start": "flex-start", "compute-class": "a ComputeClass"}[
        capacity.mode
    ]


def _dangers(settings: Settings) -> Iterator[str]:
    if settings.gateway.enabled and settings.gateway.is_public:
        key = "an API key protects /v1" if settings.guards_v1_only else "no API key protects it"
        yield f"The gateway is reachable from the internet, and {key}."


def _remarks(
    settings: Settings, stand_in_project: bool, environments: str, secret_keys: Sequence[str]
) -> Iterator[str]:
    if stand_in_project:
        yield (
            f"gcp:project is still the placeholder; this preview used {settings.project!r} instead. "
            "`fleet check` and `pulumi up` refuse it."
        )
    if secret_keys:
        yield f"Secrets cannot be decrypted offline; placeholders were used for {', '.join(sorted(secret_keys))}."
    if environments:
        yield environments
    if settings.server.replicas == 0:
        yield "The fleet is paused (0 replicas). Weights and platform stay and are paid for."
        if isinstance(settings.capacity, Reservation) and settings.capacity.nodes is None:
            yield (
                "The reservation is paid meanwhile, and is not in the price: server.replicas alone says how many nodes it holds. "
                "capacity.nodes counts them at 0 replicas, too."
            )
    elif settings.is_scaled:
        scaling = settings.server.scaling
        yield (
            f"No server runs between batches; a batch starts up to {scaling.max}. Quotas, volumes and throughput are those of "
            f"{scaling.max}."
            if settings.scales_by_batch
            else f"An autoscaler keeps {scaling.min} to {scaling.max} replicas, by {scaling.mode}; quotas, volumes and throughput are "
            f"those of {scaling.max}."
        )
    elif settings.server.replicas == "external":
        yield "Replicas are managed externally; price and figures are those of one replica."
    if isinstance(settings.capacity, ComputeClassMode) and settings.capacity.has_unsized_reservation:
        yield CLASS_RESERVATION


def _sort(resource: RecordedResource) -> str:
    if resource.type == STACK_TYPE:
        return "stack"
    if not resource.custom:
        return "component"
    return "provider" if resource.type.startswith("pulumi:providers:") else "resource"
