"""The output check: does the canary say what an old replica says, as far as that replica agrees with itself?

It finds broken weights, kernels and templates. It is no evaluation: two sound releases differ on near ties, and a model that has
become a little worse may pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import comb
from typing import Final

from fleet.bench.repeats import CONFIDENCE
from fleet.report.words import format_percent
from fleet.rollout.judge.answers import Answer, Answers, Prompt, digest, prompts
from fleet.rollout.judge.verdict import Decision, Limits, Reason, reason

FIRST_TOKENS: Final = 16
"""Of an answer are compared. Assumed: after a near tie everything differs, and a longer answer has more of them."""
_NAMED: Final = 4
_LOOP: Final = 4
"""Tokens that follow each other again and again to the end of an answer, at least `_LOOPS` times: it repeats itself."""
_LOOPS: Final = 6
_UNREADABLE: Final = 0.1
"""Share of characters that nobody can read. Assumed."""
_MISSING: Final = "not asked: `fleet rollout judge` asks both replicas and keeps answers.json"


def reasons(old: Answers | None, canary: Answers | None, limits: Limits) -> Iterator[Reason]:
    """Three lines: first tokens, sums, sound answers. Undecided where a side was not asked."""
    missing = [name for name, one in (("old replica", old), ("canary", canary)) if one is None or len(one.rounds) < 2]
    if old is None or canary is None or missing:
        yield reason("answers", "undecided", _MISSING, "both asked", ", ".join(missing))
        return
    if {old.prompts, canary.prompts} != {digest()}:
        yield reason("answers", "undecided", "other prompts than this release's", "the same prompts", "ask both again")
        return
    every = list(prompts().values())
    sums = [one for one in every if one.result is not None]

    def same(one: Answers, other: Answers) -> list[str]:
        return [each.id for each in every if _agree(_of(one, 0, each), _of(other, 1, each))]

    def always(side: Answers, holds: Callable[[Answer, Prompt], bool], asked: Sequence[Prompt]) -> list[str]:
        return [each.id for each in asked if all(holds(_of(side, n, each), each) for n in range(len(side.rounds)))]

    same_first = f"with the old replica's first {FIRST_TOKENS} tokens"
    yield _shares("agreement", same_first, every, same(old, old), same(old, canary), limits.agreement)
    for id_, what, asked, holds in (("arithmetic", "sums right", sums, _right), ("soundness", "sound", every, _sound)):
        yield _shares(id_, what, asked, always(old, holds, asked), always(canary, holds, asked), limits.answers)


def _shares(
    id_: str, what: str, asked: Sequence[Prompt], old: Sequence[str], canary: Sequence[str], fewer: float
) -> Reason:
    """Reject where fewer than allowed hold, and chance alone would hardly make it so few; undecided where it might."""
    lost = [one for one in old if one not in canary]
    chance = fewer_by_chance(len(canary), len(old), len(asked))
    verdict: Decision = "reject" if chance <= (1 - CONFIDENCE) / 2 else "undecided"
    if len(old) - len(canary) <= fewer * len(asked):
        verdict = "promote"
    named = f": {', '.join(lost[:_NAMED])}{', ...' if len(lost) > _NAMED else ''}" if lost else ""
    limit = f"at most {format_percent(fewer, 0)} fewer than the old replica's {len(old)}"
    evidence = f"{len(lost)} lost{named}; so few by chance: {chance:.2g} (Fisher's exact test)"
    return reason(id_, verdict, f"{len(canary)} of {len(asked)} {what}", limit, evidence)


def fewer_by_chance(fewer: int, more: int, of: int) -> float:
    """Fisher's exact test, one-sided: how likely two equal sides of `of` prompts each split their sum at least as unevenly."""
    together = fewer + more
    ways = sum(comb(of, least) * comb(of, together - least) for least in range(max(0, together - of), fewer + 1))
    return ways / comb(2 * of, together)


def _of(side: Answers, number: int, prompt: Prompt) -> Answer:
    return side.rounds[number].get(prompt.id) or Answer(error="not asked")


def _items(answer: Answer) -> Sequence[int | str]:
    """Token numbers, or words where the server tells none."""
    return answer.tokens or answer.text.split()


def _agree(one: Answer, other: Answer) -> bool:
    told = bool(one.tokens) and bool(other.tokens)
    parts = [answer.tokens if told else tuple(answer.text.split()) for answer in (one, other)]
    return not (one.error or other.error) and parts[0][:FIRST_TOKENS] == parts[1][:FIRST_TOKENS]


def _right(answer: Answer, prompt: Prompt) -> bool:
    found = re.match(r"\s*(-?\d+)(?!\d)", answer.text)
    return found is not None and int(found[1]) == prompt.result


def _sound(answer: Answer, _: Prompt) -> bool:
    """Neither an error, nor empty, nor unreadable, nor the same few tokens without end."""
    text = answer.text.rstrip("\N{REPLACEMENT CHARACTER}")  # half a character, where the answer was cut
    unreadable = sum(one == "\N{REPLACEMENT CHARACTER}" or not (one.isprintable() or one.isspace()) for one in text)
    if answer.error or not text.strip() or unreadable > _UNREADABLE * len(text):
        return False
    items = list(_items(answer))
    loops = (items[-size:] * _LOOPS == items[-size * _LOOPS :] for size in range(1, _LOOP + 1))
    return not any(loop for size, loop in enumerate(loops, 1) if len(items) >= size * _LOOPS)
