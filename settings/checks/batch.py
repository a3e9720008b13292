"""Checks of the section `batch`: what a run could not do, or would pay for without work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding, Severity
from facts.time_to_serve import time_to_serve
from settings.derived.replica_start import replica_start
from settings.sections.batch import MOST_DAYS
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings


def batch_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the section. Its requests are checked also while it is off, so that enabling it does not fail."""
    batch = settings.batch
    yield from _requests(settings)
    if not batch.enabled:
        if given := sorted(batch.model_fields_set - {"enabled"}):
            yield _problem(
                "batch-off",
                "enabled",
                False,
                allowed="true, for the rest of the section to take effect",
                why=f"without it {', '.join(given)} has no effect, and `fleet batch run` has no bucket",
                write="enabled: true",
                severity="note",
            )
        return
    yield from _end(settings)
    yield from _servers(settings)
    yield from _limits(settings)


def _requests(settings: Settings) -> Iterator[Finding]:
    batch = settings.batch
    if batch.template is not None and batch.endpoint == "completions":
        yield _problem(
            "batch-template-is-chat",
            "endpoint",
            batch.endpoint,
            allowed="chat, with a template",
            why="a template makes each line one chat message",
            write="endpoint: chat; or a file in OpenAI's batch format with lines of /v1/completions",
        )
    if batch.id is not None and batch.template is None:
        yield _problem(
            "batch-id-without-template",
            "id",
            batch.id,
            allowed="left out without a template",
            why="lines in OpenAI's batch format have their id at custom_id",
            write='template: "Summarize: {text}", or remove id',
        )
    longest, most = settings.serving.engine.max_model_len, batch.defaults.max_tokens
    if most is not None and longest is not None and most >= longest:
        yield _problem(
            "batch-answer-exceeds-context",
            "defaults.maxTokens",
            most,
            allowed=f"less than engine.maxModelLen ({longest:,})",
            why="prompt and answer share the context, so the servers would refuse every line",
            write=f"defaults: {{maxTokens: {max(1, longest // 4)}}}, or a larger maxModelLen",
        )


def _end(settings: Settings) -> Iterator[Finding]:
    batch, scaling = settings.batch, settings.server.scaling
    if batch.on_done != "keep" and not settings.scales_by_batch:
        sized = f"scaling.mode: {scaling.mode}" if scaling.mode != "none" else f"replicas: {settings.server.replicas}"
        yield _problem(
            "batch-pause-without-scaling",
            "onDone",
            batch.on_done,
            allowed="keep; pause and destroy-hint with server.scaling.mode batch",
            why=f"server.{sized} decides how many servers run, and they would stay, and be billed, after the last document",
            write="server: {scaling: {mode: batch, max: SERVERS}} without replicas; or onDone: keep",
        )
    if batch.on_done == "keep" and settings.scales_by_batch:
        yield _problem(
            "batch-keep-with-scaling",
            "onDone",
            batch.on_done,
            allowed="pause or destroy-hint with server.scaling.mode batch",
            why="with this mode servers run for a batch only, and end with its last pod",
            write="onDone: pause; or replicas: N without scaling",
        )
    if scaling.mode == "schedule" and not scaling.min:
        yield _problem(
            "batch-waits-for-windows",
            "enabled",
            True,
            allowed="any; best with server.scaling.mode batch",
            why="outside all windows no server runs: a batch waits, and its deadline does not",
            write="nothing, if batches run in the windows only",
            severity="note",
        )


def _servers(settings: Settings) -> Iterator[Finding]:
    if settings.scales_by_batch and settings.rollout.canary is not None:
        yield Finding(
            id="batch-with-canary",
            subject=key("rollout.canary"),
            found="given",
            allowed="left out with server.scaling.mode batch",
            why="a canary runs, and is billed, between batches, and there are no users to compare it by",
            write="remove canary: between two batches an upgrade disturbs nobody; or a stack of its own for the new release",
        )
    elif settings.canary_weight:
        yield Finding(
            id="batch-of-two-releases",
            subject=key("rollout.canary.weight"),
            found=settings.canary_weight,
            allowed="no weight while a batch runs",
            why="documents go through the gateway, so two releases answer one batch",
            write="run batches before the canary or after its end",
            severity="warning",
        )
    if settings.scales_by_batch and settings.benchmark.enabled:
        yield Finding(
            id="benchmark-between-batches",
            subject=key("benchmark.enabled"),
            found=True,
            allowed="false with server.scaling.mode batch",
            why="only a batch starts servers: the benchmark's clients would wait in vain, on C4 nodes that are billed",
            write="benchmark: {enabled: false}; a stack with replicas measures",
        )


def _limits(settings: Settings) -> Iterator[Finding]:
    from settings.derived.spending import rates

    batch, counted = settings.batch, rates(settings)
    start = time_to_serve(replica_start(settings)).low_seconds
    seconds = batch.deadline_seconds
    if seconds is not None and seconds <= start and settings.scales_by_batch:
        yield _problem(
            "batch-deadline-below-start",
            "deadline",
            batch.deadline,
            allowed=f"more than {start / 60:.0f} min: node, image, weights and compilation of a server",
            why="servers come from zero, and the time would be over before the first document",
            write="deadline: 8h",
        )
    if seconds is not None and seconds > MOST_DAYS * 86_400:
        yield _problem(
            "batch-deadline-beyond-job",
            "deadline",
            batch.deadline,
            allowed=f"up to {MOST_DAYS}d",
            why=f"a batch's Job ends after {MOST_DAYS} days, so that clients that hang rent no server for longer; another run goes on",
            write=f"deadline: {MOST_DAYS}d",
        )
    if seconds is not None and batch.retention_days * 86_400 <= seconds:
        yield _problem(
            "batch-retention-below-deadline",
            "retentionDays",
            batch.retention_days,
            allowed=f"more days than batch.deadline ({batch.deadline})",
            why="the bucket would delete documents and answers while the batch runs",
            write="retentionDays: 30",
        )
    if batch.max_usd is None:
        return
    nodes = f"{settings.machine.type} by capacity.mode {settings.capacity.mode}"
    if counted.full is None:
        yield _problem(
            "batch-counts-no-nodes",
            "maxUsd",
            batch.max_usd,
            allowed="an amount with a known price of the nodes",
            why=f"no price of {nodes} is known, so the sum misses the largest cost, and the batch would never stop for it",
            write="capacity: {usdPerNodeHour: YOUR PRICE}, or remove maxUsd",
        )
        return
    least = counted.per_machine * (start + settings.placement.idle_seconds) / 3_600
    if settings.scales_by_batch and not counted.paid_anyway and batch.max_usd <= least:
        yield _problem(
            "batch-limit-below-start",
            "maxUsd",
            batch.max_usd,
            allowed=f"more than {least:,.2f}: the start and the idle time of one server",
            why=f"one {nodes} costs ${counted.per_machine:,.2f} an hour, {start / 60:.0f} min before its first answer and "
            f"{settings.placement.idle_seconds / 60:.0f} min after its last: nothing is left for documents",
            write=f"maxUsd: {max(1, round(counted.per_machine * 4))}, four hours of one server",
        )


def _problem(
    id_: str, path: str, value: object, *, allowed: str, why: str, write: str, severity: Severity = "error"
) -> Finding:
    where = key(f"batch.{path}")
    return Finding(id=id_, subject=where, found=value, allowed=allowed, why=why, write=write, severity=severity)
