"""Modules that are read and not built."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from lab.control_plane.modules import module_folders, pinned
from tests.lab.control_plane.conftest import FakeGo


@pytest.fixture
def downloaded(fake_go: FakeGo, tmp_path: Path) -> FakeGo:
    """Go's read-only module folders."""
    documents = []
    for path, version in pinned().items():
        folder = tmp_path / "mod" / f"{path}@{version}"
        (folder / "config" / "crd").mkdir(parents=True)
        (folder / "config" / "crd" / "a.yaml").write_text(path)
        (folder / "main.go").touch()
        (folder / "config" / "crd" / "a.yaml").chmod(0o444)
        (folder / "config" / "crd").chmod(0o555)
        documents.append(json.dumps({"Path": path, "Version": version, "Dir": str(folder)}, indent=1))
    fake_go.downloads_file.write_text("go: downloading something\n" + "\n".join(documents))
    return fake_go


def test_each_module_has_its_folder_and_a_second_time_needs_no_go(downloaded: FakeGo) -> None:
    said: list[str] = []
    found = module_folders(said.append)
    assert set(found) == set(pinned())
    for path, folder in found.items():
        assert (folder / "config" / "crd" / "a.yaml").read_text() == path
        assert not (folder / "main.go").exists()
    assert [re.findall(r"\d+", line) for line in said] == [["4"]]
    (downloaded.folder / "go").unlink()
    assert module_folders(pytest.fail) == found


@pytest.mark.usefixtures("downloaded")
def test_only_what_is_missing_is_fetched_again() -> None:
    found = module_folders(lambda _: None)
    shutil.rmtree(found["sigs.k8s.io/gateway-api"])
    said: list[str] = []
    module_folders(said.append)
    assert [re.findall(r"\d+", line) for line in said] == [["1"]]
    assert (found["sigs.k8s.io/gateway-api"] / "config").is_dir()


@pytest.mark.usefixtures("downloaded")
def test_the_copy_can_be_removed() -> None:
    for folder in module_folders(lambda _: None).values():
        assert all(path.stat().st_mode & 0o200 for path in (folder, *folder.rglob("*")))
