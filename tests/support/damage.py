"""What nobody means to write: a sound document with a few places changed, a sound file with pieces put in or cut out."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.support.canaries import CANARIES

_TEXTS: tuple[str, ...] = (
    "", " ", "x y", "a\nb", "\t", "\0", "\x1b[31m", "\ud800", "\u202e", "\ufeff", "é", "A" * 300, "x" * 100_000, "-", "--", "..",
    "../../etc/passwd", "$(touch pwn)", "{}", "[]", "'", '"', "\\", "#", "*a", "!!str", "yes", "null", "nan", "-inf", "-1", "007",
    "1e999", "9" * 400, "16k", "1:30", "2020-01-01", "http://[", "0.0.0.0/0", "10.0.0.0/33", "spot", "[key]", *CANARIES.values(),
)  # fmt: skip
_NUMBERS = (0, 1, 2, -1, 64, 65_536, 2**31, 2**63, 10**30, 10**400, 0.5, -0.0, 1e-320, 1e300)
HOSTILE: st.SearchStrategy[Any] = st.sampled_from(
    (*_TEXTS, *_NUMBERS, None, True, [], {}, [[]], [None], {"": ""}, {"mode": "spot"}, ["a"] * 30)
) | st.text(max_size=20)
_PIECES = (
    *(text.encode("utf-8", "surrogatepass") for text in _TEXTS), b"\r", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"---\n",
    b"%YAML 1.1\n---\n", b"\n...\n", b"? ", b": ", b"- ", b"|\n", b"&a ", b"<<: *a\n", b"!!python/object/apply:os.system ", b"!!int ",
    b"\nconfig:", b"\n  gcp:project: b", b"{secure: v1:abc}", b"[" * 3_000, b"{a: " * 60, b"a: &a [" + b"*a," * 9 + b"]\n",
    b"NaN", b"1e999", b"0" * 5_000, b'\\ud800"',
)  # fmt: skip


def damaged(documents: Sequence[Any]) -> st.SearchStrategy[Any]:
    """A copy of one of the JSON values with one to three places replaced, removed, repeated under another name, or exchanged."""
    edit = st.tuples(
        st.integers(0, 10**6), st.sampled_from(("replace", "replace", "remove", "add", "exchange")), HOSTILE
    )
    return st.tuples(st.sampled_from(documents), st.lists(edit, min_size=1, max_size=3)).map(_edited)


def damaged_bytes(texts: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """One of the files with up to four pieces put in, each in the place of some bytes."""
    edit = st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(_PIECES) | st.binary(max_size=6))
    return st.tuples(st.sampled_from(texts), st.lists(edit, max_size=4)).map(_put)


def _edited(drawn: tuple[Any, list[tuple[int, str, Any]]]) -> Any:
    document = copy.deepcopy(drawn[0])
    for number, way, value in drawn[1]:
        places = list(_places(document))
        if not places:
            break
        holder, key = places[number % len(places)]
        if way == "remove":
            del holder[key]
        elif way == "exchange":
            other, name = places[number * 7919 % len(places)]
            holder[key] = copy.deepcopy(other[name])
        elif way == "add" and isinstance(holder, dict):
            holder[value if isinstance(value, str) else str(key).swapcase()] = copy.deepcopy(holder[key])
        else:
            holder[key] = copy.deepcopy(value)
    return document


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Holder and key of every place; of long lists the first, the second and the last entry."""
    keys = value if isinstance(value, dict) else sorted({0, 1, len(value) - 1} & {*range(len(value))})
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def _put(drawn: tuple[bytes, list[tuple[float, int, bytes]]]) -> bytes:
    text, edits = drawn
    for share, cut, piece in edits:
        at = int(share * len(text))
        text = text[:at] + piece + text[at + cut :]
    return text
