"""Named workloads: shape of requests, and tokens per step with drafts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from facts import ledger

STAND_IN_WORKLOAD = "article"
"""Used for calculations if the lengths of the traffic are unknown, as for chat or a file of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Length of a part of a request in tokens. Raises ValueError if minimum, mean and maximum are not in order."""

    min: int
    mean: float
    max: int

    def __post_init__(self) -> None:
        if not 0 <= self.min <= self.mean <= self.max:
            raise ValueError(f"min, mean and max must ascend from 0, got {self.min}, {self.mean}, {self.max}")

    @classmethod
    def exactly(cls, tokens: int) -> Lengths:
        """The same length for every request."""
        return cls(min=tokens, mean=tokens, max=tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Shape of requests. Raises ValueError."""

    input_tokens: Lengths
    output_tokens: Lengths
    shared_prefix_tokens: int = 0
    """Tokens at the start that all prompts share."""
    name: str | None = None
    """Its name in workloads.yaml, or None."""

    def __post_init__(self) -> None:
        if self.output_tokens.min < 1:
            raise ValueError(f"output_tokens.min must be 1 or more, got {self.output_tokens.min}")
        if not 0 <= self.shared_prefix_tokens <= self.input_tokens.min:
            raise ValueError(
                f"shared_prefix_tokens must be between 0 and the shortest prompt, {self.input_tokens.min}, "
                f"got {self.shared_prefix_tokens}"
            )

    @property
    def title(self) -> str:
        """Its name, or its mean lengths."""
        return self.name or f"{self.input_tokens.mean:g} in, {self.output_tokens.mean:g} out"

    @property
    def tokens_per_request(self) -> float:
        """Mean input and output tokens of one request."""
        return self.input_tokens.mean + self.output_tokens.mean

    @property
    def longest_request_tokens(self) -> int:
        """Longest prompt plus longest output."""
        return self.input_tokens.max + self.output_tokens.max


def named_workload(name: str) -> Workload:
    """A workload of facts/data/workloads.yaml. Raises LedgerError with the known names, also for a workload with lengths from a file."""
    fields = ledger.entry("workloads", "workloads", name)
    if fields["input_tokens"] is None:
        known = ", ".join(workloads_with_lengths())
        raise ledger.LedgerError(f"workload {name!r} has lengths from a file; lengths are known for {known}")
    return Workload(
        input_tokens=Lengths(**fields["input_tokens"]),
        output_tokens=Lengths(**fields["output_tokens"]),
        shared_prefix_tokens=fields.get("shared_prefix_tokens", 0),
        name=name,
    )


def workloads_with_lengths() -> tuple[str, ...]:
    """Names of the workloads with known lengths."""
    entries = ledger.section("workloads", "workloads")
    return tuple(name for name, fields in entries.items() if fields["input_tokens"] is not None)


def countable_name(name: str) -> str:
    """The workload to use for calculations: `name`, or the stand-in if its lengths are unknown."""
    return name if name in workloads_with_lengths() else STAND_IN_WORKLOAD


@cache
def draft_acceptance() -> tuple[float, ...]:
    """Share of accepted draft tokens by position, from the article.

    90 % with one draft token; further positions are those of MTP-5, scaled to 90 % at the first.
    """
    details = ledger.value("phases.figures.tp8-mtp5.details")
    first, positions = details["mtp1_acceptance_percent"] / 100, details["acceptance_percent_by_position"]
    return tuple(round(first * share / positions[0], 3) for share in positions)


def tokens_per_step(speculative_tokens: int) -> float:
    """Tokens of one sequence per step: one plus accepted drafts. Positions that were not measured count like the last one."""
    accepted = draft_acceptance()
    return 1 + sum(accepted[min(position, len(accepted) - 1)] for position in range(speculative_tokens))
