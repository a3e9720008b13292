"""Named workloads: what requests look like, and how many tokens a step gains from drafts on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from facts import ledger

STAND_IN_WORKLOAD = "article"
"""Counted with where the traffic has no stated lengths: a chat or a file of requests may have any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long a part of a request is, in tokens. Raises ValueError where minimum, mean and maximum are out of order."""

    min: int
    mean: float
    max: int

    def __post_init__(self) -> None:
        if not 0 <= self.min <= self.mean <= self.max:
            raise ValueError(f"min, mean and max must ascend from 0, got {self.min}, {self.mean}, {self.max}")

    @classmethod
    def exactly(cls, tokens: int) -> Lengths:
        """Every request alike."""
        return cls(min=tokens, mean=tokens, max=tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What requests look like. Raises ValueError."""

    input_tokens: Lengths
    output_tokens: Lengths
    shared_prefix_tokens: int = 0
    """Tokens at the start of every prompt that are the same in all."""
    name: str | None = None
    """A name from workloads.yaml, where it is one of those."""

    def __post_init__(self) -> None:
        if self.output_tokens.min < 1:
            raise ValueError(f"output_tokens.min must be 1 or more, got {self.output_tokens.min}")
        if not 0 <= self.shared_prefix_tokens <= self.input_tokens.min:
            raise ValueError(
                f"shared_prefix_tokens must be between 0 and the shortest prompt, {self.input_tokens.min}, "
                f"got {self.shared_prefix_tokens}"
            )

    @property
    def tokens_per_request(self) -> float:
        """Mean input and output tokens of one request."""
        return self.input_tokens.mean + self.output_tokens.mean

    @property
    def longest_request_tokens(self) -> int:
        """Longest prompt and longest answer together."""
        return self.input_tokens.max + self.output_tokens.max


def named_workload(name: str) -> Workload:
    """A workload of facts/data/workloads.yaml. Raises LedgerError with the names there are, also for a workload whose lengths
    its file decides.
    """
    fields = ledger.entry("workloads", "workloads", name)
    if fields["input_tokens"] is None:
        known = ", ".join(workloads_with_lengths())
        raise ledger.LedgerError(f"workload {name!r} is as long as its file says; lengths are known of {known}")
    return Workload(
        input_tokens=Lengths(**fields["input_tokens"]),
        output_tokens=Lengths(**fields["output_tokens"]),
        shared_prefix_tokens=fields.get("shared_prefix_tokens", 0),
        name=name,
    )


def workloads_with_lengths() -> tuple[str, ...]:
    """Names of the workloads that can be counted with: their lengths are known without a file."""
    entries = ledger.section("workloads", "workloads")
    return tuple(name for name, fields in entries.items() if fields["input_tokens"] is not None)


def countable_name(name: str) -> str:
    """The name of the workload to count with in place of `name`: itself, or the stand-in where it has no lengths."""
    return name if name in workloads_with_lengths() else STAND_IN_WORKLOAD


@cache
def draft_acceptance() -> tuple[float, ...]:
    """Share of draft tokens accepted by position, as the article measured them on its own workload.

    90 % with one draft token; the further positions are those of MTP-5, scaled to 90 % at the first.
    """
    details = ledger.value("phases.figures.tp8-mtp5.details")
    first, positions = details["mtp1_acceptance_percent"] / 100, details["acceptance_percent_by_position"]
    return tuple(round(first * share / positions[0], 3) for share in positions)


def tokens_per_step(speculative_tokens: int) -> float:
    """Tokens one sequence gains in a step: one and the accepted drafts. Positions beyond those measured gain like the last one."""
    accepted = draft_acceptance()
    return 1 + sum(accepted[min(position, len(accepted) - 1)] for position in range(speculative_tokens))
