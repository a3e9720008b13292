"""The verdict: reasons, decision, and the file that `fleet rollout promote` requires."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from facts import strict_json
from fleet.bench.folder import Asked
from fleet.bench.recomputed import Results

File = TypeVar("File", bound=BaseModel)
MOST_REPEATS: Final = 20
"""Maximum of `--repeats`: runs of each load per pass. Assumed."""
NEEDED: Final = ("certificate", "errors", "throughput", "agreement", "arithmetic", "soundness")
"""Reasons required for a promotion."""
Decision = Literal["promote", "reject", "undecided"]
Share = Annotated[float, Field(ge=0, le=1)]


class Part(BaseModel):
    """Part of a verdict file."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, strict=True, allow_inf_nan=False)


class Limits(Part):
    """Allowed losses of a canary against an old replica, as shares: 0.02 is 2 %."""

    throughput: Share = 0.02
    """Total and output tok/s. Assumed: below the difference of two equal fleets in the article (3.4 %)."""
    ttft: Share = 0.1
    """Time to first token, median and p99. Assumed: a p99 varies by a few percent between runs."""
    tpot: Share = 0.05
    """Time per output token, median and p99. Assumed."""
    acceptance: Share = 0.05
    """Share of accepted draft tokens. Assumed."""
    kv_cache: Share = 0.1
    """Tokens in the KV cache. Assumed."""
    errors: Share = 0.001
    """Additional failed requests, as a share of all. Assumed: one of a thousand."""
    agreement: Share = 0.1
    """Fewer agreeing prompts than the old replica has with itself. Assumed: different kernels have different near ties."""
    answers: Share = 0.05
    """Fewer prompts with a correct sum or a sound answer. Assumed: one of twenty."""


class Reason(Part):
    """One line of the verdict."""

    id: str
    verdict: Decision | Literal["note"]
    """Decision of this line alone. A note decides nothing."""
    found: str
    limit: str
    evidence: str


def reason(id_: str, verdict: Decision | Literal["note"], found: str, limit: str, evidence: str) -> Reason:
    """A line."""
    return Reason(id=id_, verdict=verdict, found=found, limit=limit, evidence=evidence)


class Verdict(Part):
    """rollout-verdict.json."""

    schema_: Annotated[Literal[2], Field(alias="schema")] = 2
    results: dict[str, Results] = {}
    """By side. Empty: judged in memory."""
    verdict: Decision
    headline: str
    declaration: str
    """`declaration_of` the canary; a canary changed since needs a new verdict."""
    limits: Limits
    reasons: tuple[Reason, ...]
    certificates: dict[str, tuple[str, ...]]
    """Headline of each measurement, by side."""
    old: Annotated[tuple[Asked, ...], Field(min_length=1)]
    """run.json of each measurement."""
    canary: Annotated[tuple[Asked, ...], Field(min_length=1)]


def declaration_of(run: Mapping[str, Any]) -> str:
    """SHA-256 of the served configuration in a run.json: model, image, engine, resources and machine, without the
    measurement.

    The `run` of settings.derived.measurement.measurement(...) gives the same value.
    """
    asked = Asked.model_validate(run, strict=False).model_dump(mode="json")
    declared = {key: asked[key] for key in ("stack", "profile", "served_model", "model_revision", "image", "release")}
    declared |= {key: value for key, value in asked["shape"].items() if key not in ("replicas", "routing", "workload")}
    return hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()


def decide(reasons: Sequence[Reason], limits: Limits) -> tuple[Decision, str]:
    """Reject if any reason does, else undecided if any is, else promote; with one sentence that lists non-default limits,
    which `promote` writes to the stack file.
    """
    given = [f"{key.replace('_', '-')}={100 * value:g}" for key, value in limits if value != getattr(Limits(), key)]
    under = f", with {', '.join(given)}" if given else ""
    judged = {one.id.partition("@")[0] for one in reasons}
    gaps = [f"{name}: not judged" for name in NEEDED if name not in judged]
    decision: Decision
    for decision, more in (("reject", []), ("undecided", gaps)):
        if told := [f"{one.id}: {one.found}" for one in reasons if one.verdict == decision] + more:
            rest = f"; and {len(told) - 3} more" if len(told) > 3 else ""
            return decision, f"{decision.capitalize()}{under}: {'; '.join(told[:3])}{rest}."
    return "promote", f"Promote{under}: {sum(one.verdict == 'promote' for one in reasons)} conditions hold."


def as_text(verdict: Verdict) -> str:
    """rollout-verdict.json."""
    return verdict.model_dump_json(by_alias=True, indent=1) + "\n"


def parsed(path: Path, kind: type[File]) -> File:
    """Parses a JSON file. Raises OSError, and ValueError for the first error."""
    value = strict_json.read(path)
    try:
        return kind.model_validate_json(json.dumps(value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ValueError(f"{where}: {first['msg']}") from None
