from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.certificate import certify
from fleet.bench.errors import BenchmarkError
from fleet.bench.merge import merge_folder
from fleet.bench.recomputed import digests, located, relative, require_same, results_of
from tests.fleet.bench.merge.folders import client, copied, sound

FILE = Path("merged.json")


@pytest.fixture(scope="module")
def document() -> Any:
    measurement = merge_folder(sound(clients=2, requests_per_client=24, slo=(("ttft_ms", 220.0),)))
    whole = {
        "measurement": measurement.model_dump(mode="json"),
        "certificate": certify(measurement).model_dump(mode="json"),
    }
    return json.loads(json.dumps(whole))


def leaves(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    if not items:
        yield where
    for key, inner in items:
        yield from leaves(inner, (*where, key))


def shortened(value: Any) -> Any:
    """The document with the first of each list, which is enough."""
    if isinstance(value, dict):
        return {key: shortened(one) for key, one in value.items()}
    return [shortened(one) for one in value[:1]] if isinstance(value, list) else value


def of(document: Any, where: tuple[Any, ...]) -> Any:
    for key in where:
        document = document[key]
    return document


def changed(document: Any, where: tuple[Any, ...], change: Any) -> Any:
    found = copy.deepcopy(document)
    inner = of(found, where[:-1])
    inner[where[-1]] = change(inner[where[-1]])
    return found


def numbers(value: Any) -> Iterator[Any]:
    """What a reader that is not strict takes for the same number, and what is more than rounding."""
    yield from (str(value), value + (abs(value) + 1) * 1e-6, float("inf"), -value - 1, None)
    if value in (0, 1):
        yield bool(value)


def test_every_value_is_compared(document: Any) -> None:
    require_same(FILE, document, document, "")
    document = shortened(document)
    every = [one for one in leaves(document) if one[-1] not in ("title", "allowed", "why") or "checks" not in one]
    assert len(every) > 200
    stated = copy.deepcopy(document)
    for where in every:
        holder, key, value = of(stated, where[:-1]), where[-1], of(document, where)
        for wrong in numbers(value) if type(value) in (int, float) else (not value, "more", 0.5, {"a": 1}, [None]):
            holder[key] = wrong
            with pytest.raises(BenchmarkError, match=re.escape(".".join(map(str, where)))):
                require_same(FILE, stated, document, "")
        holder[key] = value


def test_rounding_is_no_difference_and_words_that_conclude_nothing_may_change(document: Any) -> None:
    rate = ("measurement", "runs", 0, "whole", "total_tokens_per_s")
    require_same(FILE, changed(document, rate, lambda value: value * (1 + 1e-13)), document, "")
    require_same(FILE, changed(document, ("certificate", "checks", 0, "why"), lambda _: "other"), document, "")


@pytest.mark.parametrize(
    ("where", "change"),
    [
        (("certificate", "checks"), lambda checks: checks[1:]),
        (("certificate", "checks"), lambda checks: [*checks, checks[0]]),
        (("certificate", "checks"), lambda _: []),
        (("measurement", "runs"), lambda runs: runs * 3),
        (("measurement", "runs", 0, "clients"), lambda clients: [clients[0], clients[0]]),
        (("more",), lambda _: 1),
        (("measurement", "runs", 0, "completed"), lambda _: 10**400),
    ],
)
def test_what_is_more_or_less_is_named(document: Any, where: tuple[Any, ...], change: Any) -> None:
    stated = copy.deepcopy(document)
    stated.setdefault("more", None) if where == ("more",) else None
    with pytest.raises(BenchmarkError, match=re.escape(".".join(map(str, where)))):
        require_same(FILE, changed(stated, where, change), document, "")


@pytest.mark.parametrize(("change", "said"), [("edit", "has changed"), ("remove", "is missing"), ("add", "was added")])
def test_results_that_a_file_names_are_those_results(tmp_path: Path, change: str, said: str) -> None:
    folder = copied(tmp_path)
    file = tmp_path / "elsewhere" / "verdict.json"
    results = results_of(folder, file)
    assert (located(file, results, "its results", "").resolve(), results.files) == (folder, digests(folder))
    one = client(folder)
    if change == "edit":
        one.write_bytes(one.read_bytes() + b" ")
    elif change == "remove":
        one.unlink()
    else:
        (folder / "point-00-repeat-0" / "client-900.json").write_bytes(one.read_bytes())
    with pytest.raises(BenchmarkError, match=said):
        located(file, results, "its results", "")
    folder.rename(tmp_path / "moved")
    for place in (results.folder, "/", "nowhere"):
        with pytest.raises(BenchmarkError, match="missing"):
            located(file, results.model_copy(update={"folder": place}), "its results", "measure again")


def test_names_that_are_not_utf_8_are_refused_by_name(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    moved = folder.rename(tmp_path / os.fsdecode(b"measured-\xff"))
    for refused in (lambda: results_of(moved, tmp_path / FILE), lambda: relative(moved / FILE, tmp_path)):
        with pytest.raises(BenchmarkError, match="rename"):
            refused()
    assert results_of(moved, moved / FILE).folder == "."
    for name in (b"\xff.log", b"client\n.json"):
        file = moved / "point-00-repeat-0" / os.fsdecode(name)
        file.touch()
        with pytest.raises(BenchmarkError, match="rename"):
            digests(moved)
        file.unlink()
