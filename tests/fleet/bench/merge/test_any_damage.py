"""Whatever stands in a file: a sentence or a measurement, never anything else."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.bench.errors import BenchmarkError
from fleet.bench.judged import as_text, judge
from fleet.bench.measurement import Judged, Measurement
from fleet.bench.merge import merge_folder
from tests.fleet.bench.merge.folders import RUN, sound

SMALL: dict[str, Any] = {
    "clients": 2,
    "requests_per_client": 8,
    "connections_per_client": 2,
    "servers": 1,
    "engines_per_server": 1,
}
FILES = (
    f"{RUN}/client-001.json",
    f"{RUN}/client-001.witness.json",
    f"{RUN}/pod-0.json",
    "run.json",
    "dcgm.json",
)
VALUES = [
    None,
    "",
    "x",
    "7",
    -1,
    0,
    3,
    1e308,
    -1e-9,
    True,
    [],
    {},
    [None],
    ["a"],
    [[]],
    [1, 2],
    float("nan"),
    float("inf"),
    10**30,
]


def _places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value, of long lists the first and the last entry."""
    found = [path] if path else []
    if isinstance(content, dict):
        for key, value in content.items():
            found += _places(value, (*path, key))
    elif isinstance(content, list) and content:
        for index in {0, len(content) - 1}:
            found += _places(content[index], (*path, index))
    return found


def _replaced(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    target = content
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("damage") / "measurement"
    shutil.copytree(sound(**SMALL), to)
    return to


def _told_or_merged(folder: Path) -> None:
    try:
        merged = merge_folder(folder)
    except BenchmarkError as error:
        assert str(error)
    else:
        assert isinstance(merged, Measurement)
        assert Measurement.model_validate_json(merged.model_dump_json(by_alias=True)) == merged


@pytest.mark.slow
@given(st.data())
def test_any_value_anywhere(folder: Path, data: st.DataObject) -> None:
    file = folder / data.draw(st.sampled_from(FILES))
    before = file.read_bytes()
    content = json.loads(before)
    path = data.draw(st.sampled_from(_places(content)))
    try:
        file.write_text(json.dumps(_replaced(content, path, data.draw(st.sampled_from(VALUES)))), encoding="utf-8")
        _told_or_merged(folder)
    finally:
        file.write_bytes(before)


@pytest.mark.slow
@given(
    st.sampled_from((*FILES, f"{RUN}/server-metrics.jsonl.gz", "gpu/dmon-vllm-0.txt")),
    st.floats(0, 1),
    st.binary(max_size=4),
)
def test_any_cut_and_any_bytes(folder: Path, name: str, share: float, put: bytes) -> None:
    file = folder / name
    before = file.read_bytes()
    at = int(share * len(before))
    try:
        file.write_bytes(before[:at] + put)
        _told_or_merged(folder)
        file.write_bytes(before[:at] + put + before[at + len(put) :])
        _told_or_merged(folder)
    finally:
        file.write_bytes(before)


@pytest.mark.slow
@given(st.data())
def test_any_sample_of_a_server(folder: Path, data: st.DataObject) -> None:
    file = folder / RUN / "server-metrics.jsonl.gz"
    before = file.read_bytes()
    lines = gzip.decompress(before).splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    content = json.loads(lines[number])
    path = data.draw(st.sampled_from(_places(content)))
    lines[number] = json.dumps(_replaced(content, path, data.draw(st.sampled_from(VALUES)))).encode()
    try:
        file.write_bytes(gzip.compress(b"\n".join(lines)))
        _told_or_merged(folder)
    finally:
        file.write_bytes(before)


def test_what_is_judged_is_read_back_as_it_was(folder: Path) -> None:
    judged = judge(folder)
    assert Judged.model_validate_json(as_text(judged)) == judged
