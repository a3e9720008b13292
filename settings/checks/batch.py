"""Checks of the section `batch`: what a run could not do, or would pay for without work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from facts.time_to_serve import time_to_serve
from settings.derived.replica_start import replica_start
from settings.row import Row
from settings.sections.batch import MOST_DAYS

if TYPE_CHECKING:
    from settings.stack import Settings

_TEMPLATE = Row(
    "batch-template-is-chat",
    "a template makes each line one chat message",
    "endpoint: chat; or a file in OpenAI's batch format with lines of /v1/completions",
)
_ANSWER = Row(
    "batch-answer-exceeds-context",
    "prompt and answer share the context, so the servers would refuse every line",
    "fewer maxTokens, or a larger maxModelLen",
)
_STAY = Row(
    "batch-servers-stay",
    "another setting decides how many servers run: they stay, and are billed, after the last document",
    "server: {scaling: {mode: batch, max: SERVERS}} without replicas, if nobody else uses them",
    "note",
)
_WAITS = Row(
    "batch-waits-for-windows",
    "outside all windows no server runs: a batch waits, and its deadline does not",
    "nothing, if batches run in the windows only",
    "note",
)
_CANARY = Row(
    "batch-with-canary",
    "a canary runs, and is billed, between batches, and there are no users to compare it by",
    "remove canary: between two batches an upgrade disturbs nobody; or a stack of its own for the new release",
)
_TWO_RELEASES = Row(
    "batch-of-two-releases",
    "documents go through the gateway, so two releases answer one batch",
    "run batches before the canary or after its end",
    "warning",
)
_BENCHMARK = Row(
    "benchmark-between-batches",
    "only a batch starts servers: the benchmark's clients would wait in vain, on C4 nodes that are billed",
    "benchmark: {enabled: false}; a stack with replicas measures",
)
_TOO_SOON = Row(
    "batch-deadline-below-start",
    "servers come from zero, and the time would be over before the first document",
    "deadline: 8h",
)
_TOO_LATE = Row(
    "batch-deadline-beyond-job",
    f"a batch's Job ends after {MOST_DAYS} days, so that clients that hang rent no server for longer; another run goes on",
    f"deadline: {MOST_DAYS}d",
)
_RETENTION = Row(
    "batch-retention-below-deadline",
    "the bucket would delete documents and answers while the batch runs",
    "retentionDays: 30",
)
_NO_PRICE = Row(
    "batch-counts-no-nodes",
    "no price of the nodes is known, so the sum misses the largest cost, and the batch would never stop for it",
    "capacity: {usdPerNodeHour: YOUR PRICE}, or remove maxUsd",
)
_NOTHING_LEFT = Row(
    "batch-limit-below-start",
    "a server is billed before its first answer and after its last, and nothing would be left for documents",
    "a larger maxUsd",
)


def batch_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the section. Its requests are checked also while it is off, so that enabling it does not fail."""
    batch = settings.batch
    if batch.template is not None and batch.endpoint == "completions":
        yield _TEMPLATE("batch.endpoint", batch.endpoint, "chat, with a template")
    longest, most = settings.serving.engine.max_model_len, batch.defaults.max_tokens
    if most is not None and longest is not None and most >= longest:
        yield _ANSWER("batch.defaults.maxTokens", most, f"less than engine.maxModelLen ({longest:,})")
    if batch.enabled:
        yield from _servers(settings)
        yield from _limits(settings)


def _servers(settings: Settings) -> Iterator[Finding]:
    scaling, by_batch = settings.server.scaling, settings.scales_by_batch
    if not by_batch:
        yield _STAY("batch.enabled", True, "any; from zero servers to zero with server.scaling.mode batch")
    if scaling.mode == "schedule" and not scaling.min:
        yield _WAITS("batch.enabled", True, "any; best with server.scaling.mode batch")
    if by_batch and settings.rollout is not None:
        yield _CANARY("rollout", "given", "left out with server.scaling.mode batch")
    elif settings.canary_weight:
        yield _TWO_RELEASES("rollout.weight", settings.canary_weight, "no weight while a batch runs")
    if by_batch and settings.benchmark.enabled:
        yield _BENCHMARK("benchmark.enabled", True, "false with server.scaling.mode batch")


def _limits(settings: Settings) -> Iterator[Finding]:
    from settings.derived.spending import rates

    batch, counted = settings.batch, rates(settings)
    start, seconds = time_to_serve(replica_start(settings)).low_seconds, batch.deadline_seconds
    if seconds is not None and seconds <= start and settings.scales_by_batch:
        allowed = f"more than {start / 60:.0f} min: node, image, weights and compilation of a server"
        yield _TOO_SOON("batch.deadline", batch.deadline, allowed)
    if seconds is not None and seconds > MOST_DAYS * 86_400:
        yield _TOO_LATE("batch.deadline", batch.deadline, f"up to {MOST_DAYS}d")
    if seconds is not None and batch.retention_days * 86_400 <= seconds:
        yield _RETENTION(
            "batch.retentionDays", batch.retention_days, f"more days than batch.deadline ({batch.deadline})"
        )
    if batch.max_usd is None:
        return
    if counted.full is None:
        yield _NO_PRICE("batch.maxUsd", batch.max_usd, "an amount with a known price of the nodes")
        return
    least = counted.per_machine * (start + settings.placement.idle_seconds) / 3_600
    if settings.scales_by_batch and not counted.paid_anyway and batch.max_usd <= least:
        allowed = f"more than {least:,.2f}: start and idle time of a server at ${counted.per_machine:,.2f} an hour"
        yield _NOTHING_LEFT("batch.maxUsd", batch.max_usd, allowed)
