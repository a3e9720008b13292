"""Shares of a route's backends, as the Gateway API defines them: weight divided by the sum of the rule's weights.

Source: gateway-api v1.5.1, apis/v1/shared_types.go (weight) and httproute_types.go (matches, backendRefs). Played are matches by path;
a rule with other matches is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.control_plane.api import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One backend of a route's rule."""

    name: str
    weight: int
    selector: Mapping[str, str] | None
    """Labels of its pods. None: it does not exist, so its share of the requests gets 500."""


class Turns:
    """Smooth weighted round robin: after any number of requests, each of two backends has had its share of them to within half a request.

    The specification leaves the order to the implementation. A sample then needs no tolerance for chance.
    """

    def __init__(self) -> None:
        self._weights: tuple[tuple[str, int], ...] = ()
        self._credit: dict[str, int] = {}

    def next(self, backends: Sequence[Backend]) -> Backend | None:
        """The backend of the next request; None where none has a weight above 0."""
        weights = tuple((backend.name, backend.weight) for backend in backends)
        total = sum(weight for _, weight in weights)
        if not total:
            return None
        if weights != self._weights:
            self._weights, self._credit = weights, dict.fromkeys((name for name, _ in weights), 0)
        for name, weight in weights:
            self._credit[name] += weight
        chosen = max((backend for backend in backends if backend.weight), key=lambda one: self._credit[one.name])
        self._credit[chosen.name] -= total
        return chosen


def weight_of(backend: Manifest) -> int:
    """Weight of one of a rule's backendRefs; unspecified is 1."""
    return int(backend.get("weight", 1))


def rule_for(routes: Iterable[Manifest], path: str) -> tuple[Manifest, Manifest] | None:
    """The route and its rule for requests to this path: the exact path, else the longest prefix, wins; of equal ones the first."""
    best: tuple[tuple[bool, int], Manifest, Manifest] | None = None
    for route in routes:
        for rule in route["spec"].get("rules") or ():
            matches: Iterable[Manifest] = rule.get("matches") or ({},)
            for match in matches:
                rank = _rank(match, path)
                if rank is not None and (best is None or rank > best[0]):
                    best = rank, route, rule
    return None if best is None else best[1:]


def _rank(match: Manifest, path: str) -> tuple[bool, int] | None:
    """How closely a match names this path; None if it does not match."""
    if match.keys() - {"path"}:
        return None
    wanted = match.get("path") or {}
    kind, value = wanted.get("type", "PathPrefix"), str(wanted.get("value", "/"))
    if kind == "Exact":
        return (True, len(value)) if path == value else None
    prefix = value.rstrip("/")
    # By whole elements: /v1 is no prefix of /v10.
    return (False, len(prefix)) if kind == "PathPrefix" and f"{path}/".startswith(f"{prefix}/") else None
