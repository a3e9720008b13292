"""One mechanism for all JSON: a sound document with a few places replaced, removed, renamed, repeated or slightly changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.support.canaries import CANARIES, shown

Path = tuple[str | int, ...]
Edit = tuple[int, Callable[..., Path], Any, int]
"""Which place, what is done there, with which value, in which of several forms."""
MANY = 100_000
SLACK = "xoxb-" + "-".join(["123456789012", "Siskin0x1y2z30x1y2z3"])
SECRETS = (*CANARIES.values(), SLACK)
TEXTS: tuple[str, ...] = (
    "", " ", "x", "x y", "a\n", "a\nb", "\n", "\t", "\r\n", "\0", "\x1b[31m", "\ud800", "\u202e", "\ufeff", "\U0001f600", "é",
    "A" * 64, "A" * 300, "-", "--", ".", "..", "a..b", "a/b", "/", "../../etc/passwd", "/dev/zero", "/proc/self/environ", "~",
    "$(touch pwn)", "`id`", "; rm -rf /", "${HOME}", "%s%n", "{{.}}", "{}", "[]", "'", '"', "\\", "#", "*", "&a", "*a", "!!str", "<<",
    "yes", "no", "on", "Off", "true", "True", "null", "None", "nan", "inf", "-inf", "0", "-1", "1", "007", "0x10", "1e3", "1_000", "1:30",
    "12:00", "2020-01-01", "2020-01-01T00:00:00Z", "9" * 400, "1e999", "8h", "16k", "10%", "1/0", "a=b", "a:b", "http://[", "gs://b",
    "https://h/p", "0.0.0.0/0", "::/0", "10.0.0.0/33", "kube-system", "default", "spot", "mode", "int", "[key]", "europe-west4-b",
    "g2-standard-12", "meta-llama/Llama-3.3-70B-Instruct",
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    0, 1, 2, 3, -1, 7, 64, 255, 65_536, 10**6, 10**8, 2**31, 2**53, 2**53 + 1, 2**63, 10**30, 10**400, 0.5, -0.0, 1.5, 1e-9, 1e-320, 1e300,
    -1e300, 0.1 + 0.2,
)  # fmt: skip
SMALL: tuple[Any, ...] = (
    None,
    *TEXTS,
    *NUMBERS,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": ""},
    {"mode": "spot"},
    ["a"] * 30,
    *SECRETS,
)


def _deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


LARGE: tuple[Any, ...] = (
    "x" * MANY,
    "\n" * MANY,
    ["x"] * MANY,
    [1] * MANY,
    {f"k{number}": "v" for number in range(MANY)},
    [{"name": "x"}] * 5_000,
    _deep(90),
    _deep(400),
)
"""What is long or deep. Rare, because each takes as long as a hundred others."""


HOSTILE: st.SearchStrategy[Any] = st.sampled_from((*SMALL * 8, *LARGE)) | st.text(max_size=20)
"""What nobody means, sometimes what nobody could read. One object: Hypothesis looks at every value of a new one."""


def _tweaked(value: Any, number: int) -> Any:
    """A value that is almost the given one."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, str):
        if shown(value):
            return [value]  # the rest of a cut secret is none
        half = len(value) // 2
        return (
            value + "\n", f" {value}", value.upper(), value * 2, value[:half], value[:half] + "\0" + value[half:], f"{value}é", value[1:],
            f"-{value}", f"{value}-", value.replace("-", "_"), value.replace("/", "//"), f"{value}.", f"{value}#", [value], value * 60,
        )[number % 16]  # fmt: skip
    if isinstance(value, int | float):
        return (
            value + 1, value - 1, -value, value * 2, value * 1_000, value * 10**9, value * 0.5 if abs(value) < 2**1000 else value // 2,
            value + 0.5 if abs(value) < 2**1000 else value, str(value), [value], 0,
            value * 10**300 if isinstance(value, int) else value * 1e300,
        )[number % 12]  # fmt: skip
    if isinstance(value, list):
        return (value * 2, value[:-1], value[::-1], value * 60, [value], value[0] if value else None)[number % 6]
    if isinstance(value, dict):
        return (
            [value],
            {f" {key}": one for key, one in value.items()},
            dict.fromkeys(value, value),
            {f"{key}\n": one for key, one in value.items()},
            {key.swapcase(): one for key, one in value.items()},
        )[number % 5]
    return value


def edits(more: Sequence[Any] = (), most: int = 3) -> st.SearchStrategy[list[Edit]]:
    """Up to `most` changes for `edited`. `more`: values of the subject."""
    values = st.sampled_from(more) | HOSTILE if more else HOSTILE
    one = st.tuples(st.integers(0, 10**6), st.sampled_from(_WAYS), values, st.integers(0, 15))
    return st.lists(one, min_size=1, max_size=most)


def damaged(documents: Sequence[Any], *, more: Sequence[Any] = (), most: int = 3) -> st.SearchStrategy[Any]:
    """A copy of one of the documents with up to `most` places changed."""
    return st.tuples(st.sampled_from(documents), edits(more, most)).map(lambda drawn: edited(*drawn)[0])


def edited(document: Any, changes: list[Edit]) -> tuple[Any, list[Path]]:
    """A changed copy, and the places that were changed."""
    document = copy.deepcopy(document)
    changed: list[Path] = []
    for place, way, value, number in changes:
        places = list(_places(document))
        if not places:
            break
        changed.append(way(document, places[place % len(places)], value, number, places))
    return document, changed


def _holder(document: Any, path: Path) -> Any:
    for part in path[:-1]:
        document = document[part]
    return document


def _replace(document: Any, path: Path, value: Any, _number: int, _places: list[Path]) -> Path:
    _holder(document, path)[path[-1]] = copy.deepcopy(value)
    return path


def _tweak(document: Any, path: Path, _value: Any, number: int, _places: list[Path]) -> Path:
    holder = _holder(document, path)
    holder[path[-1]] = copy.deepcopy(_tweaked(holder[path[-1]], number))
    return path


def _remove(document: Any, path: Path, _value: Any, _number: int, _places: list[Path]) -> Path:
    del _holder(document, path)[path[-1]]
    return path


def _add(document: Any, path: Path, value: Any, number: int, places: list[Path]) -> Path:
    """A key with a hostile name, or one of another place's names."""
    holder = _holder(document, path)
    if isinstance(holder, dict):
        names = [str(one[-1]) for one in places] + list(TEXTS) + list(SECRETS)
        name = names[(number * 7919 + len(str(path))) % len(names)]
        holder[name] = copy.deepcopy(value)
        return (*path[:-1], name)
    holder.append(copy.deepcopy(value))
    return (*path[:-1], len(holder) - 1)


def _exchange(document: Any, path: Path, _value: Any, number: int, places: list[Path]) -> Path:
    """The value of another place."""
    other = places[(number * 7919) % len(places)]
    value = document
    for part in other:
        value = value[part]
    _holder(document, path)[path[-1]] = copy.deepcopy(value)
    return path


_WAYS: tuple[Callable[..., Path], ...] = (_replace, _replace, _replace, _tweak, _tweak, _remove, _add, _exchange)


def _places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place of a JSON value; of long lists the first, the second and the last entry."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield (*path, key)
            yield from _places(one, (*path, key))
    elif isinstance(value, list):
        for index in sorted({0, 1, len(value) - 1} & {*range(len(value))}):
            yield (*path, index)
            yield from _places(value[index], (*path, index))


def damaged_bytes(texts: Sequence[bytes], pieces: Sequence[bytes]) -> st.SearchStrategy[str]:
    """A file with pieces put in, cut out or repeated, and perhaps a secret, as a text of Latin-1 letters, one for each byte."""
    edit = st.tuples(
        st.floats(0, 1), st.integers(0, 40), st.sampled_from(pieces) | st.binary(max_size=6), st.integers(1, 3)
    )
    # Last, so that nothing is left of a secret that was cut; of one line, which no parser takes apart.
    secret = st.tuples(st.floats(0, 1), st.sampled_from([one for one in SECRETS if "\n" not in one]))

    def put(drawn: tuple[bytes, list[tuple[float, int, bytes, int]], tuple[float, str] | None]) -> str:
        text, edits, planted = drawn
        for share, cut, piece, times in edits:
            at = int(share * len(text))
            text = text[:at] + piece * times + text[at + cut :]
        if planted is not None:
            at = int(planted[0] * len(text))
            text = text[:at] + f" {planted[1]} ".encode() + text[at:]
        return text.decode("latin-1")

    return st.tuples(st.sampled_from(texts), st.lists(edit, max_size=4), st.none() | st.none() | secret).map(put)
