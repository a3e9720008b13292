"""Texts and names of others in messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MOST_CHARACTERS: Final = 200
"""Longest quote. Assumed: two lines of a terminal, and more than a digest, a self link or a flag of a profile has."""
_CLOSE: Final = 0.75
"""Likeness from which a name is taken for a misspelled one, as `SequenceMatcher.ratio` counts. Assumed."""


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text, or its beginning and its length."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def camel_case(name: str, between: str = "_") -> str:
    """`max_usd` becomes `maxUsd`."""
    first, *others = name.split(between)
    return first + "".join(other.capitalize() for other in others)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The entry of `names` closest to a misspelled `name`, ignoring case; None if none is close enough.

    A word of an entry comes first: `chat` is `serve-chat`, not another name with the same letters.
    """
    # Imported here: most starts find every name.
    from difflib import SequenceMatcher

    by_lower = {one.lower(): one for one in names}
    wanted = name.lower()
    if words := [one for one in by_lower if wanted in one.split("-")]:
        return by_lower[min(words, key=len)]
    # It keeps what it counts of the second sequence.
    matcher = SequenceMatcher(None, b=wanted)
    found, best = None, 0.0
    for one in by_lower:
        matcher.set_seq1(one)
        # The two quick ones are never below the ratio. The first of equally close names: g2-standard-12 for 13, not g2-standard-32.
        if all(ratio() >= _CLOSE for ratio in (matcher.real_quick_ratio, matcher.quick_ratio)) and (
            best < (likeness := matcher.ratio()) >= _CLOSE
        ):
            found, best = by_lower[one], likeness
    return found


def hint(name: str, known: Iterable[str], meant: str | None = None) -> str:
    """What an unknown name may have meant, else every name that is allowed. `meant`: what it means in other words, if that is known."""
    names = tuple(known)
    near = meant if meant in names else nearest(name, names)
    return f"did you mean {near}?" if near else f"allowed: {', '.join(names)}"


def plural(count: int, noun: str, more: str | None = None) -> str:
    """`1 node`, `1,200 nodes`; `more` is an irregular plural."""
    return f"{count:,} {noun if count == 1 else more or noun + 's'}"
