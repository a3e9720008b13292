"""Effects of a change that follow from settings: Jobs that run again, their cost, and the throughput."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from facts.names import APP_LABEL, BENCHMARK_APP, WRITER_APP
from facts.releases import CHANGES, Release, of_tag
from facts.upgrades import upgrade
from fleet.plan.benchmark_price import price_of
from fleet.preview.compare.changes import counterpart
from fleet.preview.compare.gpu_pods import scalers
from fleet.preview.report.resource_facts import at, cloud_name
from settings.checks.declared_server import DeclaredServer

if TYPE_CHECKING:
    from fleet.plan.modelled import Modelled
    from fleet.preview.compare.changes import Changes
    from fleet.preview.record.recording import RecordedResource, Recording
    from settings.derived.figures import Figures
    from settings.stack import Settings

_JOB: Final = "kubernetes:batch/v1:Job"
_DEPLOYMENT: Final = "kubernetes:apps/v1:Deployment"


def with_consequences(
    changes: Changes, settings: Settings, recording: Recording, figures: Figures, modelled: Modelled | None
) -> Changes:
    """The comparison with these effects added."""
    if not changes.pending:
        return changes
    return replace(
        changes,
        upgrade=tuple(_upgrade(changes, settings)),
        aftermath=(*_scaled(changes, recording.by_urn), *_runs(changes, settings, recording.by_urn)),
        price_and_rate=(*changes.price_and_rate, *_rate(changes, figures, modelled)),
    )


def _upgrade(changes: Changes, settings: Settings) -> Iterator[str]:
    """Changes between two vLLM releases that affect this stack's options."""
    edits = [edit for resource in changes.resources if resource.type == _DEPLOYMENT for edit in resource.properties]
    for edit in edits:
        if not edit.path.endswith("containers[vllm].image"):
            continue
        old, new = (of_tag(str(image).partition("@")[0].rpartition(":")[2]) for image in (edit.before, edit.after))
        if old is not None and new is not None:
            yield from release_changes(settings, old, new)


def release_changes(settings: Settings, old: Release, new: Release) -> Iterator[str]:
    """Changes between two vLLM releases for these settings' servers."""
    if old.number == new.number:
        return
    server = DeclaredServer(settings)
    set_ = set(server.flags.options)
    set_ |= {change.option for change in CHANGES if change.option.isupper() and server.env(change.option) is not None}
    for line in upgrade(old, new, set_, hybrid=server.is_hybrid, gpu=settings.machine.gpu):
        yield f"vLLM {old.version} to {new.version}: {line}"


def _scaled(changes: Changes, recorded: Mapping[str, RecordedResource]) -> Iterator[str]:
    """Changes in who manages the replicas."""
    now = {one.urn: one for one in scalers(recorded.values())}
    for resource in changes.resources:
        if resource.operation == "create" and (scaler := now.get(resource.urn)) is not None:
            yield (
                f"An autoscaler now manages the replicas of {scaler.target[1]}: the number stays until load or schedule "
                f"changes it, between {scaler.fewest} and {scaler.most}"
            )
        elif resource.operation == "delete" and resource.type.endswith((":ScaledObject", ":HorizontalPodAutoscaler")):
            yield (
                f"The autoscaler {resource.name} is removed and the number of replicas stays: `pulumi up` refuses a different number "
                "until `kubectl scale` has set it (docs/scaling.md)"
            )


def _runs(changes: Changes, settings: Settings, recorded: Mapping[str, RecordedResource]) -> Iterator[str]:
    """Jobs that are created or replaced, and therefore run."""
    for resource in changes.resources:
        if resource.type != _JOB or resource.operation not in ("create", "replace"):
            continue
        job = recorded[resource.urn]
        app = at(job.inputs, f"metadata.labels.{APP_LABEL}")
        # Another release of the weights is downloaded by a Job of another name.
        again = " again" if resource.operation == "replace" or counterpart(resource, changes.resources) else ""
        begins = f"`pulumi up` {'may run' if resource.maybe else 'runs'}"
        if app == BENCHMARK_APP:
            yield f"{begins} the benchmark{again}: {price_of(settings).short()}"
        elif app == WRITER_APP:
            yield f"{begins} the weights download{again}; its machine is not on the bill"
        else:
            yield f"{begins} Job {cloud_name(job)}{again}"


def _rate(changes: Changes, figures: Figures, modelled: Modelled | None) -> Iterator[str]:
    """Throughput after the change, with its label. The table of numbers has both sides."""
    if not any(one.id == "tokens-per-second" and one.changed for one in changes.deltas):
        return
    if figures.replicas == 0:
        yield "Throughput: none, the fleet is paused"
    elif figures.match.figure is not None and figures.total_tokens_per_s is not None:
        rates = f"{figures.total_tokens_per_s:,} tok/s total, {figures.output_tokens_per_s:,} output"
        yield f"Throughput: {rates} ({figures.match.figure.label})"
    else:
        estimate = f"{modelled.short()}; " if modelled is not None else ""
        yield f"Throughput: {estimate}no published figure for the new shape"
