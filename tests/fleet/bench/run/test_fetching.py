"""A measurement in a folder of its own: new, or its own from an earlier fetch, and never two in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.run.fetching import fetch, require_new
from fleet.clients.errors import LiveError
from fleet.clients.google_api import UserCredentials
from fleet.clients.storage import Bucket
from tests.fleet.clients.fake_google import HASTY, FakeGoogle


@pytest.fixture
def bucket(google: FakeGoogle, login: UserCredentials) -> Bucket:
    for name in ("a", "b"):
        google.put(f"runs/{name}/run.json", f'{{"name": "{name}"}}'.encode())
        google.put(f"runs/{name}/point-00-repeat-0/client-00{name == 'b':d}.json", b"x" * 100)
    return Bucket("results", login, url=google.url, retry=HASTY)


def test_a_fetch_that_was_broken_off_keeps_another_measurement_out(
    bucket: Bucket, google: FakeGoogle, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    google.broken_names = {"client-000.json": [10, *[0] * 500]}
    with pytest.raises(LiveError) as caught:
        fetch(bucket, "a", folder)
    assert caught.value.reason == "unreachable"
    with pytest.raises(BenchmarkError, match="measurement a; b "):
        fetch(bucket, "b", folder)
    google.broken_names = {}
    fetch(bucket, "a", folder)
    assert [path.name for path in (folder / "point-00-repeat-0").iterdir()] == ["client-000.json"]


def test_a_folder_with_other_runs_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "other" / "point-00-repeat-0").mkdir(parents=True)
    with pytest.raises(BenchmarkError, match=r"other .*--out"):
        fetch(bucket, "b", tmp_path / "other")


def test_a_folder_that_is_new_or_empty_will_do(tmp_path: Path) -> None:
    require_new(tmp_path / "new")
    require_new(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(BenchmarkError, match="is a file"):
        require_new(tmp_path / "file")
