"""A whole file: numbers of bad lines, ids that come twice, and the sample."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from facts.user_error import UserError
from fleet.batch import scan as scanning
from fleet.batch.requests import LineError, openai_request
from fleet.batch.scan import Context, Scan, scan
from fleet.batch.tokens import Counter
from tests.fleet.batch import made
from tests.support.rows import each_row

_WIDE = Context(least=10_000, most=20_000, whose="a test")


@pytest.fixture(scope="session")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Counter:
    file = made.tokenizer(tmp_path_factory.mktemp("tokenizer"))
    return Counter(file.read_bytes(), str(file))


def _scan(file: Path, counter: Counter, context: Context = _WIDE, **options: Any) -> Scan:
    return scan(file, openai_request, counter, context, **{"sample": 100, **options})


def _numbers(found: Scan) -> list[int]:
    return [int(one.subject.removeprefix("line ").partition(":")[0]) for one in found.findings]


_GOOD = st.builds(lambda id_, text: json.dumps(made.chat(str(id_), text)).encode(), st.integers(), st.text())
_ANY = st.binary(max_size=60).map(lambda data: data.replace(b"\n", b" ")) | _GOOD


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(_ANY, max_size=25), ends=st.booleans())
def test_any_bytes_are_read_and_every_bad_line_has_its_number(
    lines: list[bytes], ends: bool, counter: Counter, tmp_path: Path
) -> None:
    file = tmp_path / "batch.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n" * ends)
    bad, seen = [], set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            id_ = openai_request(line).id
        except LineError as error:
            bad.append(number)
            if error.of_file and number == min(bad) and not seen:
                break  # the lines after it would say the same
            continue
        if id_ in seen:
            bad.append(number)
        seen.add(id_)
    if not seen and not bad:
        with pytest.raises(UserError):
            _scan(file, counter)
        return
    found = _scan(file, counter)
    assert (found.bad, _numbers(found)) == (len(bad), bad[:20])
    assert bad or found.documents == len(seen)


@each_row(
    ("lines", "expected"),
    [
        (
            [made.chat("a", "x"), b"", made.chat("b", "x"), made.chat("a", "y"), made.chat("a", "z")],
            [("id-twice", "line 4: custom_id", "a"), ("id-twice", "line 5: custom_id", "a")],
        ),
        # A file of another kind, told once; a plain row among requests, by its line.
        ([{"id": number, "text": "x"} for number in range(30)], [("not-openai", "line 1", None)]),
        ([made.chat("a", "x"), {"id": 1, "text": "x"}], [("not-openai", "line 2", None)]),
        ([made.chat("a", "x"), made.completion("b", "x")], [("url-other", "line 2: url", None)]),
        # A chat is longer than the context only if it is without its template.
        ([made.chat("a", "the" * 9_997), made.chat("b", "the" * 9_998)], [("over-context", "line 2", None)]),
    ],
)
def test_what_only_the_whole_file_shows_is_told(
    counter: Counter, tmp_path: Path, lines: list[Any], expected: list[tuple[str, str, str | None]]
) -> None:
    found = _scan(made.write(tmp_path / "batch", *lines), counter, Context(least=10_000, most=10_000, whose="a test"))
    assert [
        (one.id, one.subject, told and one.found) for one, (*_, told) in zip(found.findings, expected, strict=True)
    ] == expected
    assert found.bad == len(expected)
    assert expected[0][0] != "id-twice" or "line 1 " in found.findings[0].allowed


def test_twenty_bad_lines_are_named_in_order_and_all_are_counted(counter: Counter, tmp_path: Path) -> None:
    lines = [made.chat("a", "x") if number % 2 else b"bad" for number in range(100)]
    found = _scan(made.write(tmp_path / "batch", *lines), counter)
    assert found.bad == 50 + 49
    assert _numbers(found) == [1, *range(3, 22)]


def test_a_line_above_the_limit_is_told_and_the_next_is_read(
    counter: Counter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = json.dumps(made.chat("a", "x" * 200)).encode()
    monkeypatch.setattr(scanning, "MOST_LINE_BYTES", len(fits))
    monkeypatch.setattr(scanning, "_CHUNK", 7)
    file = made.write(tmp_path / "batch", fits, fits + b" ", made.chat("b", "x"), fits + b" " * 99)
    found = _scan(file, counter)
    assert [(one.id, one.subject) for one in found.findings] == [("too-long", "line 2"), ("too-long", "line 4")]
    assert [one.found for one in found.findings] == [f"{(len(fits) + more) / 1e6:,.1f} MB" for more in (1, 100)]
    assert found.documents == 2


def test_a_prompt_longer_than_the_context_is_told_whatever_the_sample_is(counter: Counter, tmp_path: Path) -> None:
    lines = [made.completion(str(number), "the" * 50, max_tokens=10) for number in range(400)]
    lines[250] = made.completion("long", "the" * 91, max_tokens=10)
    lines[300] = made.completion("many bytes, few tokens", "the" * 90, max_tokens=10)
    found = _scan(made.write(tmp_path / "batch", *lines), counter, Context(least=100, most=100, whose="a test"))
    assert [(one.id, one.subject) for one in found.findings] == [("over-context", "line 251")]
    assert "91 tokens" in found.findings[0].found


def test_every_token_is_counted_where_the_file_is_small(counter: Counter, tmp_path: Path) -> None:
    file = made.write(tmp_path / "batch", made.completion("a", "the law"), made.completion("b", "x" * 4, max_tokens=30))
    found = _scan(file, counter)
    assert (found.counted, found.longest_input) == (2, 4)
    assert found.input_tokens.low == found.input_tokens.high == 3
    assert (found.output_limits, found.most_output, found.unlimited) == (46, 30, 0)


def test_a_chat_has_the_interval_of_its_template(counter: Counter, tmp_path: Path) -> None:
    found = _scan(made.write(tmp_path / "batch", made.chat("a", "the law", model="m")), counter)
    assert (found.input_tokens.low, found.input_tokens.high) == (2 + 2, 2 + 6 + 100)
    assert (found.unlimited, dict(found.models)) == (1, {"m": 1})


def _lengths() -> Iterator[int]:
    drawn = random.Random(7)
    while True:
        yield int(drawn.lognormvariate(4, 0.6)) + 1


def test_nineteen_of_twenty_intervals_hold_the_mean(counter: Counter, tmp_path: Path) -> None:
    lengths = [length for length, _ in zip(_lengths(), range(1_000), strict=False)]
    file = made.write(
        tmp_path / "batch", *(made.completion(str(one), "x" * length) for one, length in enumerate(lengths))
    )
    mean, held = sum(lengths) / len(lengths), 0
    for seed in range(20):
        found = _scan(file, counter, seed=seed, sample=150)
        assert found.counted <= 200
        assert found.longest_input == max(lengths)
        held += found.input_tokens.low <= mean <= found.input_tokens.high
    assert held >= 17  # of 19 expected
    assert _scan(file, counter, seed=3) == _scan(file, counter, seed=3)


def test_a_file_that_is_no_file_or_has_no_line_is_refused(counter: Counter, tmp_path: Path) -> None:
    for file in (tmp_path, made.write(tmp_path / "empty"), made.write(tmp_path / "blank", b" ", b"")):
        with pytest.raises(UserError):
            _scan(file, counter)


def test_what_is_no_tokenizer_is_refused() -> None:
    for content in (b"", b"{}", b"\xff", b'{"model": {"type": "BPE"}}'):
        with pytest.raises(UserError, match=r"not a tokenizer\.json"):
            Counter(content, "a file")
