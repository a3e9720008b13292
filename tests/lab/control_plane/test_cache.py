"""The cache folder: where it is, who may write, and whether there is room."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import pytest

from lab.control_plane import cache
from lab.control_plane.cache import GIB, OVERRIDE, folder, locked, require_room
from lab.results.result import RehearsalError

Usage = namedtuple("Usage", "total used free")


def test_the_override_comes_before_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv(OVERRIDE, raising=False)
    assert folder() == tmp_path / "xdg" / "vllm-fleet" / "control-plane"
    monkeypatch.setenv(OVERRIDE, str(tmp_path / "mine"))
    assert folder() == tmp_path / "mine" / "control-plane"
    assert folder().is_dir()


def test_without_any_setting_it_is_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OVERRIDE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder() == tmp_path / ".cache" / "vllm-fleet" / "control-plane"


def test_a_folder_that_cannot_be_made_is_an_error_that_names_the_override(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(OVERRIDE, str(tmp_path / "file" / "below"))
    with pytest.raises(RehearsalError, match=f"cannot be created.*Set {OVERRIDE}"):
        folder()


def test_a_lock_whose_holder_is_gone_is_free(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / ".lock").write_text("12345")
    with locked(tmp_path, said.append):
        pass
    assert said == []


def test_too_small_a_disk_is_named_with_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: Usage(100 * GIB, 99 * GIB, 1 * GIB))
    with pytest.raises(RehearsalError, match=rf"1\.0 GiB free, but .* 4\.0 GiB more. Free space, or set {OVERRIDE}"):
        require_room(5 * GIB, cache=tmp_path, reused=())


def test_what_go_has_already_is_not_needed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: Usage(100 * GIB, 98 * GIB, 2 * GIB))
    compiled = tmp_path / "compiled"
    compiled.mkdir()
    with (compiled / "package").open("wb") as file:
        file.truncate(3 * GIB)  # a hole: takes no room
    require_room(5 * GIB, cache=tmp_path, reused=(compiled, tmp_path / "none"))


def test_a_large_disk_is_not_measured_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: Usage(100 * GIB, 0, 6 * GIB))
    monkeypatch.setattr(cache, "_size", lambda _: pytest.fail("measured for nothing"))
    require_room(5 * GIB, cache=tmp_path, reused=(tmp_path,))
