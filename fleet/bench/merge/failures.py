"""Failed requests by kind, from the errors of `vllm bench serve`: a traceback, an HTTP reason, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from fleet.bench.measurement import ErrorKind

_EXAMPLE_LENGTH = 200
_HTTP = {status.phrase.lower(): f"http {status.value}" for status in HTTPStatus if status.value >= 400}
# The first that is found in an error's last line, then in all of it. Names of aiohttp's and the system's errors.
_KINDS = (
    ("open files", ("too many open files", "errno 24")),
    # vLLM's client strips each read of a stream: one that ends between `data:` and its space makes the answer no JSON
    # (benchmarks/lib/endpoint_request_func.py of 0.18.1; seen with a saturated client).
    ("no json", ("jsondecodeerror",)),
    ("timeout", ("timeouterror", "timed out", "servertimeout")),
    ("cut", ("clientpayloaderror", "transferencodingerror", "contentlengtherror", "incompleteread", "never received a valid chunk")),
    (
        "connection",
        ("serverdisconnected", "clientconnector", "connectionreset", "connectionrefused", "clientoserror", "cannot connect", "broken pipe"),
    ),
)  # fmt: skip
NO_MESSAGE = "(no message: vLLM records none for an HTTP error without a reason)"


def kind_of(error: str) -> str:
    """`connection`, `timeout`, `http 503`, `cut`, `no json`, `open files` or `other`."""
    text = error.strip().lower()
    if text in _HTTP:
        return _HTTP[text]
    for part in (text.rpartition("\n")[2], text):
        for kind, words in _KINDS:
            if any(word in part for word in words):
                return kind
    return "other"


def counted(errors: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Count and one example by kind."""
    found: dict[str, tuple[int, str]] = {}
    for error in errors:
        kind = kind_of(error)
        count, example = found.get(kind, (0, ""))
        last = error.strip().rpartition("\n")[2][:_EXAMPLE_LENGTH]
        found[kind] = (count + 1, example or last)
    return found


def together(parts: Iterable[dict[str, tuple[int, str]]]) -> tuple[ErrorKind, ...]:
    """Several clients' counts as one list, the most frequent first."""
    found: dict[str, tuple[int, str]] = {}
    for part in parts:
        for kind, (count, example) in part.items():
            before, text = found.get(kind, (0, ""))
            found[kind] = (before + count, text or example)
    ordered = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(ErrorKind(kind=kind, count=count, example=example or NO_MESSAGE) for kind, (count, example) in ordered)
