"""Published security advisories of vLLM that reach a server of this project.

A selection: advisories about endpoints, model families, connectors and front ends that no server here has are left out. `osv.dev` has
all. Read on the date in the file's head; a later advisory is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, get_args

from facts import ledger
from facts.releases import Number, number_of

Harm = Literal["less", "stops", "answers", "entry"]
HARMS: Final[tuple[Harm, ...]] = get_args(Harm)
"""What an attacker gains, gravest last: `stops`: one request stops a server, or makes it useless, for everyone; `answers`: other users'
answers change; `entry`: in without the key, or code of his choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """One published advisory."""

    id: str
    """CVE if it has one, else GHSA or PYSEC."""
    what: str
    """What an attacker can do."""
    harm: Harm
    since: Number
    fixed: Number | None
    """First release without it; None if no source names one: it then counts for every release."""
    source: str
    option: str = ""
    """Option without which it does not apply, by long name."""
    vision: bool = False
    """Whether it applies to servers that accept images and videos only."""

    def touches(self, number: Number) -> bool:
        """Whether a release has it."""
        return self.since <= number and (self.fixed is None or number < self.fixed)

    @property
    def range(self) -> str:
        """The releases with it, such as "from 0.3.0, before 0.22.0"."""
        if self.fixed is None:
            return "range not published, treated as affecting all"
        return (f"from {text_of(self.since)}, " if any(self.since) else "") + f"before {text_of(self.fixed)}"


@cache
def every() -> tuple[Advisory, ...]:
    """Every advisory, oldest fix first. Raises LedgerError."""
    return tuple(sorted(_read(), key=lambda one: (one.fixed is None, one.fixed or (), one.id)))


def worst(found: Iterable[Advisory]) -> Advisory:
    """The one of the gravest harm, of several the one that is fixed last. Raises ValueError if there is none."""
    return max(found, key=lambda one: (HARMS.index(one.harm), one.fixed is None, one.fixed or ()))


def text_of(number: Number) -> str:
    """`0.22.0`."""
    return ".".join(map(str, number))


def of_release(number: Number) -> tuple[Advisory, ...]:
    """Advisories of a release."""
    return tuple(one for one in every() if one.touches(number))


def _read() -> Iterator[Advisory]:
    for id_, fields in ledger.section("advisories", "advisories").items():
        try:
            yield Advisory(
                id=id_,
                what=fields["what"],
                harm=HARMS[HARMS.index(fields.get("harm", "less"))],
                since=number_of(fields.get("since", "0.0.0")),
                fixed=number_of(fields["fixed"]) if "fixed" in fields else None,
                source=", ".join(fields["reported"]),
                option=fields.get("option", ""),
                vision=fields.get("vision", False),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise ledger.LedgerError(f"advisories.yaml, {id_}: {error!r} is missing or of the wrong form") from error
