"""Published security advisories of vLLM that reach a server of this project.

A selection: advisories about endpoints, model families, connectors and front ends that no server here has are left out. `osv.dev` has
all. Read on the date in the file's head; a later advisory is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from facts import ledger
from facts.releases import Number, number_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """One published advisory."""

    id: str
    """CVE if it has one, else GHSA or PYSEC."""
    what: str
    """What an attacker can do."""
    stops: bool
    """Whether one request can stop a server or make it useless for everyone."""
    since: Number
    fixed: Number
    """First release without it."""
    source: str
    option: str = ""
    """Option without which it does not apply, by long name."""
    vision: bool = False
    """Whether it applies to servers that accept images and videos only."""

    def touches(self, number: Number) -> bool:
        """Whether a release has it."""
        return self.since <= number < self.fixed


@cache
def every() -> tuple[Advisory, ...]:
    """Every advisory, oldest fix first. Raises LedgerError."""
    return tuple(sorted(_read(), key=lambda one: (one.fixed, one.id)))


def of_release(number: Number) -> tuple[Advisory, ...]:
    """Advisories of a release."""
    return tuple(one for one in every() if one.touches(number))


def _read() -> Iterator[Advisory]:
    for id_, fields in ledger.section("advisories", "advisories").items():
        try:
            yield Advisory(
                id=id_,
                what=fields["what"],
                stops=fields.get("stops", False),
                since=number_of(fields.get("since", "0.0.0")),
                fixed=number_of(fields["fixed"]),
                source=", ".join(fields["reported"]),
                option=fields.get("option", ""),
                vision=fields.get("vision", False),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise ledger.LedgerError(f"advisories.yaml, {id_}: {error!r} is missing or of the wrong form") from error
