"""What a PromQL expression can and cannot be, without evaluating it: the series that it reads and the range of its values.

A range is an upper bound of what is possible: an expression whose range is empty never fires. Source: Prometheus 3 documentation,
querying: operators and functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, isnan, nan
from typing import Final

MOST: Final = 1e6
"""Highest value of a gauge or count without a unit. Assumed: requests, pods, degrees and shares stay far below."""
MOST_PER_SECOND: Final = 1e9
"""Highest rate. Assumed: a fleet writes a million tokens a second."""
_UNBOUNDED: Final = re.compile(r"bytes|seconds|time|_total|_sum|_count|_bucket|memory|_FB_|energy|clock", re.IGNORECASE)
_TOKEN: Final = re.compile(
    r"""\s*(?:\#[^\n]*\s*)*(?:
    (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
    |(?P<duration>(?:[0-9]+(?:ms|[smhdwy]))+)(?![\w.])
    |(?P<number>0x[0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<name>[a-zA-Z_:][\w:.]*)
    |(?P<sign>==|!=|>=|<=|=~|!~|[-+*/%^<>=(){}\[\],@:])
    )""",
    re.VERBOSE,
)
_BLANK: Final = re.compile(r"(\s|\#[^\n]*)*")
_DURATION: Final = re.compile(r"([0-9]+)(ms|[smhdwy])")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_PRECEDENCE: Final = {
    "or": 1, "and": 2, "unless": 2, "==": 3, "!=": 3, ">": 3, "<": 3, ">=": 3, "<=": 3, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5,
    "atan2": 5, "^": 6,
}  # fmt: skip
_GROUPINGS: Final = ("by", "without", "on", "ignoring", "group_left", "group_right")
_CLOCKS: Final = {
    "hour": (0.0, 23.0), "minute": (0.0, 59.0), "day_of_week": (0.0, 6.0), "day_of_month": (1.0, 31.0), "day_of_year": (1.0, 366.0),
    "days_in_month": (28.0, 31.0), "month": (1.0, 12.0), "year": (2025.0, 2100.0), "time": (1.7e9, 4.1e9), "timestamp": (0.0, 4.1e9),
}  # fmt: skip
_COUNTS: Final = ("count", "group", "count_over_time", "changes", "resets", "count_values")
_RATES: Final = ("rate", "irate", "increase")
_KEEP: Final = (
    "sum", "avg", "min", "max", "topk", "bottomk", "limitk", "quantile", "sort", "sort_desc", "ceil", "floor", "round", "label_replace",
    "label_join", "scalar", "vector", "last_over_time", "first_over_time", "sum_over_time", "avg_over_time", "min_over_time",
    "max_over_time", "quantile_over_time",
)  # fmt: skip


Matcher = tuple[str, str, str]
"""Label, operator, value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A selector of an expression: its metric and its label matchers."""

    metric: str
    labels: tuple[Matcher, ...] = ()

    def exact(self, label: str) -> str:
        """The one value that it asks of a label; empty where it asks for none or for several."""
        return next((value for name, operator, value in self.labels if name == label and operator == "="), "")

    def chosen(self, label: str, values: Iterable[str]) -> set[str]:
        """Those of the label's values that it selects. A pattern that cannot be read selects all."""
        return {
            value for value in values if all(_holds(value, *asked) for name, *asked in self.labels if name == label)
        }


def _holds(value: str, operator: str, asked: str) -> bool:
    if operator in ("=", "!="):
        return (value == asked) is (operator == "=")
    try:
        return (re.fullmatch(asked, value) is not None) is (operator == "=~")
    except re.error:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What an expression may yield."""

    low: float
    high: float
    readings: tuple[Reading, ...] = ()
    varies: bool = False
    """Whether it reads a series or the clock."""

    @property
    def is_empty(self) -> bool:
        """Whether it yields nothing at any time."""
        return isnan(self.low) or self.low > self.high


def seconds(duration: object) -> float:
    """Seconds of a duration such as "1h30m"; 0 where it is none."""
    parts = _DURATION.findall(str(duration))
    return sum(int(amount) * _SECONDS[unit] for amount, unit in parts)


def values(query: str) -> Values | None:
    """What the expression may yield; None where it cannot be read."""
    return _values(query)


def never_fires(query: str) -> str:
    """Why an alert on this expression cannot fire, or says nothing of the fleet; empty where it may."""
    if not query.strip():
        return "is empty"
    found = values(query)
    if found is None:
        return ""
    if found.is_empty:
        return "can never be true"
    return "" if found.varies else "reads no series"


def is_constant(query: str) -> bool:
    """Whether it always yields the same value, or nothing."""
    found = values(query)
    return found is not None and (not found.varies or found.low >= found.high or found.is_empty)


@lru_cache(maxsize=1024)
def _values(query: str) -> Values | None:
    try:
        parser = _Parser(tuple(_tokens(query)))
        found = parser.expression(1)
        return found if parser.at_end else None
    except (ValueError, IndexError, ZeroDivisionError, OverflowError, RecursionError):
        return None


def _tokens(query: str) -> Iterator[tuple[str, str]]:
    place = 0
    while not _BLANK.fullmatch(query, place):
        match = _TOKEN.match(query, place)
        if match is None or match.lastgroup is None:
            raise ValueError(query[place : place + 10])
        yield match.lastgroup, match[match.lastgroup]
        place = match.end()


def _series(name: str, labels: Sequence[Matcher]) -> Values:
    high = inf if _UNBOUNDED.search(name) else MOST
    return Values(low=0, high=high, readings=(Reading(metric=name, labels=tuple(labels)),), varies=True)


class _Parser:
    def __init__(self, tokens: tuple[tuple[str, str], ...]) -> None:
        self._tokens, self._next = tokens, 0

    @property
    def at_end(self) -> bool:
        return self._next >= len(self._tokens)

    def _peek(self) -> str:
        return "" if self.at_end else self._tokens[self._next][1]

    def _take(self, expected: str = "") -> tuple[str, str]:
        kind, text = self._tokens[self._next]
        if expected and text != expected:
            raise ValueError(text)
        self._next += 1
        return kind, text

    def expression(self, least: int) -> Values:
        start = self._next
        left = self._unary()
        while (operator := self._peek().lower()) in _PRECEDENCE and _PRECEDENCE[operator] >= least:
            left_text = self._tokens[start : self._next]
            self._take()
            is_bool = self._peek() == "bool"
            if is_bool:
                self._take()
            self._groupings()
            right_start = self._next
            right = self.expression(_PRECEDENCE[operator] + (operator != "^"))
            same = left_text == self._tokens[right_start : self._next]
            left = _binary(operator, left, right, is_bool=is_bool, same=same)
        return left

    def _unary(self) -> Values:
        if self._peek() in ("+", "-"):
            negative = self._take()[1] == "-"
            one = self.expression(_PRECEDENCE["^"])
            return replace(one, low=-one.high, high=-one.low) if negative else one
        return self._postfix(self._primary())

    def _primary(self) -> Values:
        kind, text = self._tokens[self._next]
        if text == "{":
            return _series("", self._matchers())
        self._take()
        if text == "(":
            inside = self.expression(1)
            self._take(")")
            return inside
        if kind == "number" or text.lower() in ("inf", "nan"):
            value = float(int(text, 16)) if text.lower().startswith("0x") else float(text)
            return Values(low=value, high=value)
        if kind == "text":
            return Values(low=-inf, high=inf)
        if kind != "name":
            raise ValueError(text)
        self._groupings()
        if self._peek() == "(":
            called = self._call(text.lower())
            self._groupings()
            return called
        return _series(text, self._matchers() if self._peek() == "{" else ())

    def _call(self, name: str) -> Values:
        self._take("(")
        arguments: list[Values] = []
        while self._peek() != ")":
            arguments.append(self.expression(1))
            if self._peek() == ",":
                self._take()
        self._take(")")
        return _called(name, arguments)

    def _matchers(self) -> list[Matcher]:
        self._take("{")
        found = []
        while self._peek() != "}":
            label = self._take()[1]
            if self._peek() in ("=", "!=", "=~", "!~"):
                operator, (_, value) = self._take()[1], self._take()
                found.append((label, operator, value[1:-1]))
            if self._peek() == ",":
                self._take()
        self._take("}")
        return found

    def _groupings(self) -> None:
        while self._peek().lower() in _GROUPINGS:
            self._take()
            if self._peek() == "(":
                while self._take()[1] != ")":
                    pass

    def _postfix(self, one: Values) -> Values:
        while self._peek() in ("[", "offset", "@"):
            word = self._take()[1]
            if word == "[":
                while self._take()[1] != "]":
                    pass
                continue
            if self._peek() in ("+", "-"):
                self._take()
            self._take()
            if self._peek() == "(":  # start() and end()
                self._take()
                self._take(")")
        return one


def _called(name: str, arguments: Sequence[Values]) -> Values:
    readings = tuple(reading for argument in arguments for reading in argument.readings)
    varies = any(one.varies for one in arguments)
    # The vector among the arguments: label_replace has it first, quantile and topk last.
    given = next((one for one in arguments if one.varies), arguments[0] if arguments else None)
    if name in ("absent", "absent_over_time") and given is not None:
        there = not given.varies and not given.is_empty
        return Values(low=nan if there else 1, high=1, readings=readings, varies=varies)
    if name in _CLOCKS:
        low, high = _CLOCKS[name]
        return Values(low=low, high=high, readings=readings, varies=True)
    if given is None:
        return Values(low=-inf, high=inf, varies=True)
    if given.is_empty:
        return replace(given, readings=readings)
    if name in _KEEP:
        return replace(given, readings=readings, varies=varies)
    if name in _COUNTS:
        return Values(low=0, high=MOST, readings=readings, varies=varies)
    if name in _RATES:
        bounded = not any("bytes" in reading.metric for reading in readings)
        return Values(low=0, high=MOST_PER_SECOND if bounded else inf, readings=readings, varies=varies)
    return Values(low=0 if name == "histogram_quantile" else -inf, high=inf, readings=readings, varies=varies)


def _binary(operator: str, left: Values, right: Values, *, is_bool: bool, same: bool) -> Values:
    readings, varies = (*left.readings, *right.readings), left.varies or right.varies

    def yields(low: float, high: float) -> Values:
        return Values(low=low, high=high, readings=readings, varies=varies)

    nothing = yields(nan, nan)
    match operator:
        case "or":
            some = [one for one in (left, right) if not one.is_empty]
            return yields(min(one.low for one in some), max(one.high for one in some)) if some else nothing
        case "and":
            return nothing if left.is_empty or right.is_empty else yields(left.low, left.high)
        case "unless":
            everything = same or not (right.varies or right.is_empty)
            return nothing if left.is_empty or everything else yields(left.low, left.high)
    if left.is_empty or right.is_empty:
        return nothing
    if _PRECEDENCE[operator] == _PRECEDENCE["=="]:
        if is_bool:
            return yields(0, 1)
        kept = _compared(operator, left, right)
        if operator in ("!=", ">", "<") and same:
            return nothing
        return yields(*kept) if left.varies or not right.varies else yields(right.low, right.high)
    return yields(*_computed(operator, left, right))


def _compared(operator: str, left: Values, right: Values) -> tuple[float, float]:
    """The left side's values for which the comparison may hold."""
    match operator:
        case ">" if left.high > right.low:
            return max(left.low, right.low), left.high
        case "<" if left.low < right.high:
            return left.low, min(left.high, right.high)
        case ">=" if left.high >= right.low:
            return max(left.low, right.low), left.high
        case "<=" if left.low <= right.high:
            return left.low, min(left.high, right.high)
        case "==" if max(left.low, right.low) <= min(left.high, right.high):
            return max(left.low, right.low), min(left.high, right.high)
        case "!=" if not left.low == left.high == right.low == right.high:
            return left.low, left.high
    return nan, nan


def _computed(operator: str, left: Values, right: Values) -> tuple[float, float]:
    match operator:
        case "+":
            return left.low + right.low, left.high + right.high
        case "-":
            return left.low - right.high, left.high - right.low
        case "*":
            corners = [0 if 0 in (a, b) else a * b for a in (left.low, left.high) for b in (right.low, right.high)]
            return min(corners), max(corners)
        case "/" if right.low == right.high and right.low > 0:
            return left.low / right.low, left.high / right.low
        case "/" if left.low >= 0 and right.low >= 0:
            return 0, inf
    return -inf, inf
