"""Rules for GPU counts, provisioning modes and ComputeClasses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from facts.capacity import FLEX_START_MAX_SECONDS, FLEX_START_MIN_SECONDS, MAX_GRACE_SECONDS, SPOT_NOTICE_SECONDS
from facts.finding import Finding
from facts.machines import DEFAULT_MACHINE, MACHINES, Machine, of_accelerator
from facts.node_labels import BUILT_IN_CLASSES
from facts.quantities import quantity
from facts.texts import plural
from money import is_spot
from pods import Pod, pods
from rule import Resource, ResourceRule, Setting, Settings, dig, finding, has, listed, mapped
from tokens import (
    ACCELERATOR,
    COMPUTE_CLASS,
    FLEX_START,
    PROVISIONING,
    RESERVATION,
    RESERVATION_AFFINITY,
    RESERVATION_NAME,
    RUN_DURATION,
    SPOT,
)

# Source: Kubernetes API, terminationGracePeriodSeconds.
_DEFAULT_GRACE_SECONDS: Final = 30


def _partial_node(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in pods(resource):
        counts = _counts(pod)
        if pod.gpu is not None and pod.gpus and pod.gpus not in counts:
            yield finding(
                f"{pod.spec_path} requests {pod.gpus} {pod.gpu.name}",
                write=f"{_format_counts(counts)} nvidia.com/gpu in requests and limits",
            )


def _counts(pod: Pod) -> list[int]:
    """GPU counts that such a pod may request, in order."""
    if pod.shares_its_node or _custom_class(pod):
        return sorted({count for machine in pod.machines for count in machine.pod_gpus})
    # Autopilot creates one machine for each pod, with the pod's GPU count.
    return sorted({machine.gpus for machine in pod.machines})


def _format_counts(counts: Sequence[int]) -> str:
    *first, last = map(str, counts)
    return f"{', '.join(first)} or {last}" if first else last


def _no_selector(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in pods(resource):
        if not pod.gpus or _custom_class(pod):
            continue
        if not pod.selector(ACCELERATOR):
            yield finding(
                f"{pod.spec_path} requests {plural(pod.gpus, 'GPU')} without a GPU type or a ComputeClass",
                write=f"{ACCELERATOR}: {DEFAULT_MACHINE.accelerator}, or the label of your GPU",
            )
        machine = pod.machine
        if machine is None or "on-demand" in machine.ways:
            continue
        if not is_spot(pod) and not _is_flex(pod) and not pod.selector(RESERVATION_NAME):
            yield finding(f"{pod.spec_path} selects {machine.gpu.name} nodes and declares no provisioning mode")


def _unspecific(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type == RESERVATION:
        if dig(resource.props, "specificReservationRequired") is not True:
            yield finding(
                f"{resource.label} has no specificReservationRequired: true",
                write="specificReservationRequired: true; the change replaces the reservation",
            )
        return
    for pod in pods(resource):
        if not pod.gpus:
            continue
        name, affinity = pod.selector(RESERVATION_NAME), pod.selector(RESERVATION_AFFINITY)
        where = f"{pod.spec_path}.nodeSelector"
        if name and affinity != "specific":
            yield finding(f"{where} selects the reservation {name} with affinity {affinity or 'missing'}")
        elif affinity == "specific" and not name:
            yield finding(f"{where} selects a specific reservation without a name", write=f"add {RESERVATION_NAME}")
        elif affinity in ("any", "any-reservation-then-fail"):
            yield finding(f"{where} has affinity {affinity}")


def _flex_limits(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in pods(resource):
        duration = pod.selector(RUN_DURATION)
        if duration is not None and _is_flex(pod) and not _within(duration):
            yield finding(f"{pod.spec_path}.nodeSelector has {RUN_DURATION}: {duration}")
    for path, priority in _priorities(resource):
        duration = dig(priority, "maxRunDurationSeconds")
        if dig(priority, "flexStart", "enabled") is True and duration is not None and not _within(duration):
            yield finding(f"{path}.maxRunDurationSeconds is {_as_written(duration)}")


def _spot_grace(resource: Resource, settings: Settings) -> Iterator[Finding]:
    most = settings["mostSeconds"]
    for pod in pods(resource):
        written = quantity(dig(pod.spec, "terminationGracePeriodSeconds"))
        grace = _DEFAULT_GRACE_SECONDS if written is None else written
        if pod.gpus and is_spot(pod) and grace > most:
            given = " (the default)" if written is None else ""
            yield finding(
                f"{pod.spec_path}.terminationGracePeriodSeconds is {grace:g}{given} on Spot nodes, above {most:g}"
            )


def _unsound_class(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not _is_class(resource):
        return
    name = str(dig(resource.props, "metadata", "name") or "")
    if name.startswith(("gke", "autopilot")):
        yield finding(f"metadata.name is {name}", write="a name that does not begin with gke or autopilot")
    for path, priority in _priorities(resource):
        count, counts = (
            quantity(dig(priority, "gpu", "count")),
            sorted({machine.gpus for machine in _machines(priority)}),
        )
        if counts and count is not None and count not in counts:
            yield finding(f"{path}.gpu.count is {count:g}", write=f"gpu.count: {_format_counts(counts)}")
        if dig(priority, "reservations", "affinity") == "Specific":
            if dig(priority, "location", "zones") or dig(
                resource.props, "spec", "priorityDefaults", "location", "zones"
            ):
                yield finding(
                    f"{path} has both a specific reservation and location.zones",
                    write="move the zones to reservations.specific[].zones",
                )
            if not tuple(listed(dig(priority, "reservations", "specific"))):
                yield finding(f"{path} has a specific reservation without a name", write="add reservations.specific")
        if dig(priority, "flexStart", "enabled") is True and (
            dig(priority, "spot") is True or has(priority, "reservations")
        ):
            yield finding(f"{path} combines flex-start with another mode", write="one priority for each mode")
    gpus = any(dig(priority, "gpu") is not None for _path, priority in _priorities(resource))
    if gpus and dig(resource.props, "spec", "whenUnsatisfiable") != "DoNotScaleUp":
        yield finding(
            f"spec.whenUnsatisfiable is {dig(resource.props, 'spec', 'whenUnsatisfiable') or 'missing'}",
            write="whenUnsatisfiable: DoNotScaleUp",
        )


def _is_flex(pod: Pod) -> bool:
    return pod.selector(FLEX_START) == "true" or pod.selector(PROVISIONING) == "flex-start"


def _custom_class(pod: Pod) -> str | None:
    name = pod.selector(COMPUTE_CLASS)
    return None if name in BUILT_IN_CLASSES else name


def _within(duration: Any) -> bool:
    seconds = quantity(duration)
    return seconds is not None and seconds.is_integer() and FLEX_START_MIN_SECONDS <= seconds <= FLEX_START_MAX_SECONDS


def _as_written(value: Any) -> str:
    number = quantity(value)
    return str(value) if number is None else f"{number:.15g}"


def _is_class(resource: Resource) -> bool:
    return resource.is_kubernetes and resource.kind == "ComputeClass"


def _machines(priority: Mapping[str, Any]) -> tuple[Machine, ...]:
    """Machines that match a priority; empty for an unknown GPU."""
    named = MACHINES.get(str(dig(priority, "machineType")))
    return of_accelerator(str(dig(priority, "gpu", "type"))) if named is None else (named,)


def _priorities(resource: Resource) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The priorities of a ComputeClass, with their paths."""
    if _is_class(resource):
        for index, priority in enumerate(listed(dig(resource.props, "spec", "priorities"))):
            yield f"spec.priorities[{index}]", mapped(priority)


RULES: Final = (
    ResourceRule(
        name="partial-node",
        subject="capacity",
        statement="A pod requests all GPUs of a machine, or a share that Autopilot supports.",
        evidence="Autopilot does not share machines with B200, GB200, H200 or H100 Mega between pods and refuses any other GPU count "
        '("incorrect count"; GKE cluster autoscaler). It shares the others between pods of 1, 2, 4 or 8 GPUs that select '
        "gke-accelerator-count (GKE documentation, GPU workloads in Autopilot). Mandatory: the pod stays Pending",
        fix="request all GPUs of a machine, in requests and limits; run more engines in the pod instead of more pods on the node",
        level="mandatory",
        severity="high",
        judge=_partial_node,
    ),
    ResourceRule(
        name="no-capacity-selector",
        subject="capacity",
        statement="A pod on a machine without on-demand capacity declares Spot, flex-start, a reservation or a ComputeClass.",
        evidence="A4, A4X, A3 Ultra and A3 High with fewer than eight GPUs are not sold on demand (the article, GPU provisioning; Compute "
        "Engine documentation, GPU machine types). Mandatory: the pod stays Pending",
        fix=f'one of {SPOT}: "true"; {FLEX_START}: "true"; {RESERVATION_NAME} with {RESERVATION_AFFINITY}: specific; {COMPUTE_CLASS}',
        level="mandatory",
        severity="high",
        judge=_no_selector,
    ),
    ResourceRule(
        name="reservation-not-specific",
        subject="capacity",
        statement="A reservation is specific, and its pods select it by name.",
        evidence="Autopilot consumes specific reservations only: a name without the affinity `specific`, or the affinity without a name, "
        "is an error (GKE cluster autoscaler; GKE documentation, consuming reserved resources). Mandatory: the pods stay Pending while "
        "the reserved nodes are paid for",
        fix=f"{RESERVATION_NAME}: <name> with {RESERVATION_AFFINITY}: specific",
        level="mandatory",
        severity="high",
        judge=_unspecific,
    ),
    ResourceRule(
        name="flex-start-limits",
        subject="capacity",
        statement="A flex-start node runs between ten minutes and seven days.",
        evidence=f"GKE accepts whole seconds from {FLEX_START_MIN_SECONDS} to {FLEX_START_MAX_SECONDS} (GKE documentation, flex-start). "
        "Mandatory: GKE refuses any other value and creates no node",
        fix=f'{RUN_DURATION}: "{FLEX_START_MIN_SECONDS}" to "{FLEX_START_MAX_SECONDS}"',
        level="mandatory",
        severity="high",
        judge=_flex_limits,
    ),
    ResourceRule(
        name="spot-grace-above-budget",
        subject="capacity",
        statement="A Spot pod's grace period is one that GKE grants.",
        evidence=f"GKE waits at most {MAX_GRACE_SECONDS} s at a scale-down; a pod with more is extended-duration, which Spot does not "
        "support (GKE documentation, extended run time; cluster autoscaler). A notice shortens any grace period to "
        f"{SPOT_NOTICE_SECONDS} s; scale-ins, updates and drained nodes do not. Mandatory: the pod has no node",
        fix=f"terminationGracePeriodSeconds: {MAX_GRACE_SECONDS}",
        level="mandatory",
        severity="medium",
        settings=(
            Setting(
                name="mostSeconds",
                type="number",
                unit="s",
                default=MAX_GRACE_SECONDS,
                why="longest grace period, GKE's own maximum at a scale-down",
            ),
        ),
        judge=_spot_grace,
    ),
    ResourceRule(
        name="compute-class-unsound",
        subject="capacity",
        statement="A GPU ComputeClass has valid priorities and no fallback to other machines.",
        evidence="GKE refuses a specific reservation beside location.zones, a reserved name, and a GPU count that no such machine has; "
        "ScaleUpAnyway falls back to E2 machines, which no GPU pod can use (GKE documentation, ComputeClass; GKE cluster autoscaler). "
        "Mandatory: the pods stay Pending",
        fix="see the finding",
        level="mandatory",
        severity="high",
        judge=_unsound_class,
    ),
)
