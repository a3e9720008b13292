"""The verdict: its reasons, what they come to, and the file that `fleet rollout promote` asks for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import Asked
from settings import strict_json

File = TypeVar("File", bound=BaseModel)
VERDICT_FILE: Final = "rollout-verdict.json"
MOST_REPEATS: Final = 20
"""Of `--repeats`: runs of each load in a pass that anybody would pay for. Assumed."""
NEEDED: Final = ("certificate", "errors", "throughput", "agreement", "arithmetic", "soundness")
"""Reasons without which nothing is promoted."""
Decision = Literal["promote", "reject", "undecided"]
Share = Annotated[float, Field(ge=0, le=1)]


class Part(BaseModel):
    """A part of a file that a judgement writes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Limits(Part):
    """What a canary may lose against an old replica; shares, 0.02 is 2 %."""

    throughput: Share = 0.02
    """Of total and of output tok/s. Assumed: below what two equal fleets of the article differ by (3.4 %)."""
    ttft: Share = 0.1
    """Longer to the first token, median and p99. Assumed: a p99 varies by a few per cent from run to run."""
    tpot: Share = 0.05
    """Longer between tokens, median and p99. Assumed."""
    acceptance: Share = 0.05
    """Of the share of draft tokens that are accepted. Assumed."""
    kv_cache: Share = 0.1
    """Of the tokens that the KV cache holds. Assumed."""
    errors: Share = 0.001
    """More requests that fail, as a share of all. Assumed: one of a thousand."""
    agreement: Share = 0.1
    """Fewer prompts that agree with the old replica than it agrees with itself on. Assumed: other kernels, other near ties."""
    answers: Share = 0.05
    """Fewer prompts with a right sum, or with a sound answer. Assumed: one of twenty."""


class Reason(Part):
    """One line of the verdict."""

    id: str
    verdict: Decision | Literal["note"]
    """What this alone would decide. A note decides nothing."""
    found: str
    limit: str
    evidence: str


def reason(id_: str, verdict: Decision | Literal["note"], found: str, limit: str, evidence: str) -> Reason:
    """A line."""
    return Reason(id=id_, verdict=verdict, found=found, limit=limit, evidence=evidence)


class Verdict(Part):
    """rollout-verdict.json."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    verdict: Decision
    headline: str
    declaration: str
    """`declaration_of` the canary: one that was changed since needs another verdict."""
    limits: Limits
    reasons: tuple[Reason, ...]
    certificates: dict[str, tuple[str, ...]]
    """Headline of each measurement, by side."""
    old: Annotated[tuple[Asked, ...], Field(min_length=1)]
    """run.json of each measurement: who was measured, when, with what."""
    canary: Annotated[tuple[Asked, ...], Field(min_length=1)]


def declaration_of(run: Mapping[str, Any]) -> str:
    """SHA-256 of what a run.json declares to be served: model, image, engine, resources and machine, and nothing of how it was
    measured.

    The `run` of settings.derived.measurement.measurement(...) has the same as the measurement's own run.json.
    """
    asked = Asked.model_validate(run).model_dump(mode="json")
    declared = {key: asked[key] for key in ("stack", "profile", "served_model", "model_revision", "image", "release")}
    declared |= {key: value for key, value in asked["shape"].items() if key not in ("replicas", "routing", "workload")}
    return hashlib.sha256(json.dumps(declared, sort_keys=True).encode()).hexdigest()


def decide(reasons: Sequence[Reason], limits: Limits) -> tuple[Decision, str]:
    """Reject for any reason to, else undecided for any gap, else promote; with one sentence, which names the limits that are not the
    defaults: `promote` writes it into the stack file.
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


def read(path: Path) -> Verdict:
    """A stored verdict. Raises BenchmarkError for a file that is none, or whose word is not what its reasons come to."""
    try:
        found = parsed(path, Verdict)
    except OSError as error:
        raise BenchmarkError(f"{path}: the verdict cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise BenchmarkError(f"{path} is no verdict: {error}; `fleet rollout judge` writes one") from None
    decision, headline = decide(found.reasons, found.limits)
    if (found.verdict, found.headline) != (decision, headline):
        raise BenchmarkError(
            f"{path} was changed: it says {found.verdict}, its reasons and limits come to {decision}; judge the results again with "
            "`fleet rollout judge --results OLD_DIR CANARY_DIR`"
        )
    return found


def parsed(path: Path, kind: type[File]) -> File:
    """A JSON file as such an object. Raises OSError, and ValueError with its first fault."""
    value = strict_json.read(path)
    try:
        return kind.model_validate_json(json.dumps(value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ValueError(f"{where}: {first['msg']}") from None
