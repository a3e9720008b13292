"""The output check: compares the canary's answers with an old replica's, relative to that replica's own consistency.

It finds broken weights and kernels, and a prefix cache that corrupts answers. It uses /v1/completions: chat templates and parsers
(tools, reasoning) are not covered, nor contexts longer than 2,000 tokens. It is not an evaluation: two sound releases differ on near ties,
and a slightly worse model may pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fleet.bench.repeats import CONFIDENCE
from fleet.report.words import format_percent
from fleet.rollout.judge.answers import YARDSTICK, Answer, Answers, Prompt, digest, prompts, unanswered
from fleet.rollout.judge.chance import more_by_chance
from fleet.rollout.judge.verdict import Decision, Limits, Reason, reason
from fleet.verify.judgement import unsound

FIRST_TOKENS: Final = 16
"""First tokens compared. Assumed: after a near tie everything differs, and longer answers have more of them."""
_NAMED: Final = 4
_MISSING: Final = "missing: `fleet rollout judge` queries both replicas and writes answers.json"


def reasons(
    old: Answers | None, canary: Answers | None, limits: Limits, *, other_model: bool = False
) -> Iterator[Reason]:
    """Three lines: first tokens, sums, sound answers. Undecided if a side has no answers or the old one is not a valid reference.
    `other_model`: the canary has a different model, so agreement is only a note.
    """
    missing = [name for name, one in (("old replica", old), ("canary", canary)) if one is None or len(one.rounds) < 2]
    if old is None or canary is None or missing:
        yield reason("answers", "undecided", _MISSING, "both asked", ", ".join(missing))
        return
    if {old.prompts, canary.prompts} != {digest()}:
        yield reason("answers", "undecided", "prompts of another release", "the same prompts", "query both again")
        return
    every = list(prompts().values())
    enough = YARDSTICK * len(every)
    if len(every) - len(silent := unanswered(old)) < enough:
        found = f"the old replica answered {len(every) - len(silent)} of {len(every)}"
        yield reason("answers", "undecided", found, f"at least {enough:.0f}", f"first: {next(iter(silent.values()))}")
    sums = [one for one in every if one.result is not None]

    def same(one: Answers, other: Answers) -> list[str]:
        return [each.id for each in every if _agree(each, _of(one, 0, each), _of(other, 1, each))]

    def always(side: Answers, holds: Callable[[Answer, Prompt], bool], asked: Sequence[Prompt]) -> list[str]:
        return [each.id for each in asked if all(holds(_of(side, n, each), each) for n in range(len(side.rounds)))]

    same_first = f"with the old replica's first {FIRST_TOKENS} tokens"
    # At temperature 0 answers repeat: only missing answers may change.
    missing = list(unanswered(canary))
    kinds = (
        ("agreement", same_first, every, same(old, old), same(old, canary), limits.agreement),
        ("arithmetic", "sums right", sums, always(old, _right, sums), always(canary, _right, sums), limits.answers),
        ("soundness", "sound", every, always(old, _sound, every), always(canary, _sound, every), limits.answers),
    )
    for id_, what, asked, before, after, limit in kinds:
        line = _shares(id_, what, asked, before, after, limit, missing)
        poor = id_ != "arithmetic" and len(before) < YARDSTICK * len(asked)
        if poor or (id_ == "arithmetic" and len(every) - len(silent) < enough):
            yardstick = f"the old replica is not a valid reference: {len(before)} of {len(asked)} {what}"
            line = reason(id_, "undecided", yardstick, f"at least {format_percent(YARDSTICK, 0)}", line.evidence)
        if id_ == "agreement" and other_model:
            line = reason(id_, "note", line.found, "none: a different model answers differently", line.evidence)
        yield line


def _shares(
    id_: str,
    what: str,
    asked: Sequence[Prompt],
    old: Sequence[str],
    canary: Sequence[str],
    fewer: float,
    missing: Sequence[str],
) -> Reason:
    """Verdict if fewer than allowed hold: sums and soundness reject, except for missing answers; agreement rejects only if chance is
    unlikely, because of near ties.
    """
    lost = [one for one in old if one not in canary]
    silent = [one for one in lost if one in missing]
    chance = more_by_chance(len(asked) - len(old), len(asked), len(asked) - len(canary), len(asked))
    open_ = id_ == "agreement" or len(old) - len(canary) - len(silent) <= fewer * len(asked)
    verdict: Decision = "undecided" if open_ and chance > (1 - CONFIDENCE) / 2 else "reject"
    if len(old) - len(canary) <= fewer * len(asked):
        verdict = "promote"
    named = f": {', '.join(lost[:_NAMED])}{', ...' if len(lost) > _NAMED else ''}" if lost else ""
    limit = f"at most {format_percent(fewer, 0)} fewer than the old replica's {len(old)}"
    evidence = f"{len(lost)} lost{named}; probability by chance: {chance:.2g} (Fisher's exact test)"
    if verdict == "undecided":
        advice = (
            "requests failed: judge again"
            if silent
            else "answers repeat at temperature 0: read answers.json, evaluate with your own tasks, then "
            f"--limit {id_}=N"
        )
        evidence += f"; {advice}"
    return reason(id_, verdict, f"{len(canary)} of {len(asked)} {what}", limit, evidence)


def _of(side: Answers, number: int, prompt: Prompt) -> Answer:
    return side.rounds[number].get(prompt.id) or Answer(error="not asked")


def _items(answer: Answer) -> Sequence[int | str]:
    """Token ids, or words if the server returns none."""
    return answer.tokens or answer.text.split()


def _agree(prompt: Prompt, one: Answer, other: Answer) -> bool:
    """The first tokens; for a sum only its line, because the rest is arbitrary."""
    if prompt.result is not None:
        first, second = (answer.text.lstrip().partition("\n")[0].split() for answer in (one, other))
        return not (one.error or other.error) and first[:FIRST_TOKENS] == second[:FIRST_TOKENS]
    told = bool(one.tokens) and bool(other.tokens)
    parts = [answer.tokens if told else tuple(answer.text.split()) for answer in (one, other)]
    return not (one.error or other.error) and parts[0][:FIRST_TOKENS] == parts[1][:FIRST_TOKENS]


def _right(answer: Answer, prompt: Prompt) -> bool:
    found = re.match(r"\s*(-?\d+)(?!\d)", answer.text)
    return found is not None and int(found[1]) == prompt.result


def _sound(answer: Answer, _: Prompt) -> bool:
    """Not an error, empty, unreadable, or a loop."""
    return not (answer.error or unsound(answer.text, _items(answer)))
