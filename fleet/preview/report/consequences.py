"""What only the stack's settings add to a comparison: what `pulumi up` runs again, what that costs, and the rate by its label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fleet.plan.benchmark_price import price_of
from fleet.preview.compare.dangers import ENDS
from fleet.preview.report.resource_facts import at, cloud_name, kind_of
from fleet.report.words import format_list
from settings.names import APP_LABEL, BENCHMARK_APP, WRITER_APP

if TYPE_CHECKING:
    from fleet.plan.modelled import Modelled
    from fleet.preview.compare.changes import Changes
    from fleet.preview.record.recording import RecordedResource, Recording
    from settings.derived.figures import Figures
    from settings.stack import Settings

_JOB: Final = "kubernetes:batch/v1:Job"
_MOST_NAMES: Final = 3
"""Resources named of those that are replaced or deleted."""


def with_consequences(
    changes: Changes, settings: Settings, recording: Recording, figures: Figures, modelled: Modelled | None
) -> Changes:
    """The comparison with the effects and the rate that its two recordings alone cannot tell."""
    if not changes.pending:
        return changes
    return replace(
        changes,
        effects=(*changes.effects, *_runs(changes, settings, recording.by_urn), *_ended(changes, recording.by_urn)),
        price_and_rate=(*changes.price_and_rate, *_rate(changes, figures, modelled)),
    )


def _runs(changes: Changes, settings: Settings, recorded: Mapping[str, RecordedResource]) -> Iterator[str]:
    """Jobs that are made, or made anew: they run as soon as they are there."""
    for one in changes.resources:
        if one.type != _JOB or one.operation not in ("create", "replace"):
            continue
        job = recorded[one.urn]
        app = at(job.inputs, f"metadata.labels.{APP_LABEL}")
        again = " again" if one.operation == "replace" else ""
        begins = f"`pulumi up` {'may run' if one.maybe else 'runs'}"
        if app == BENCHMARK_APP:
            yield f"{begins} the benchmark{again}: {price_of(settings).short()}"
        elif app == WRITER_APP:
            yield f"{begins} the download of the weights{again}; its machine is not on the bill"
        else:
            yield f"{begins} Job {cloud_name(job)}{again}"


def _ended(changes: Changes, recorded: Mapping[str, RecordedResource]) -> Iterator[str]:
    """What is replaced and what is deleted, by name."""
    for end in ENDS:
        names = [
            f"{kind_of(one.type)} {cloud_name(recorded[one.urn]) if one.urn in recorded else one.name}"
            for one in changes.resources
            if one.operation == end and one.custom
        ]
        if names:
            rest = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
            yield f"{end.capitalize()}d: {format_list([*names[:_MOST_NAMES], *rest])}"


def _rate(changes: Changes, figures: Figures, modelled: Modelled | None) -> Iterator[str]:
    """Tokens a second before and after, each with its label; an estimate is called one."""
    rate = {one.id: one for one in changes.deltas}
    total, output = rate.get("tokens-per-second"), rate.get("output-tokens-per-second")
    radius = changes.blast_radius
    serving = radius.replicas_restarted or radius.replicas_added or radius.replicas_removed
    if not serving and not (total is not None and total.changed):
        return
    was = "nothing published"
    if total is not None and total.before is not None:
        exported = next((one.before for one in changes.outputs if one.path == "publishedFigure"), "")
        label = str(exported).partition(" (")[2].removesuffix(")") or "published"
        and_output = f", {output.before:,.0f} output" if output is not None and output.before is not None else ""
        was = f"{total.before:,.0f} tok/s total{and_output} ({label})"
    if figures.replicas == 0:
        now = "none: the fleet is paused"
    elif figures.total_tokens_per_s is not None and figures.match.figure is not None:
        if total is None or not total.changed:
            return
        now = (
            f"{figures.total_tokens_per_s:,} tok/s total, {figures.output_tokens_per_s:,} output "
            f"({figures.match.figure.label})"
        )
    elif modelled is not None:
        now = f"{modelled.short()}; nothing published for the new shape"
    else:
        now = "nothing published for the new shape"
    if was != now:
        yield f"{was} becomes {now}" if was[0].isdigit() else f"Throughput: {was} before; {now}"
