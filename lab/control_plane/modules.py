"""Go modules with CustomResourceDefinitions and charts, which are read but not built."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lab.control_plane import cache, go_command, toolchain
from lab.control_plane.cache import Progress
from lab.control_plane.toolchain import GO_FOLDER

_FOLDER: Final = GO_FOLDER / "custom-resources"
_KEPT: Final = "config"
"""The folder of each module that is kept: definitions and charts are in it, and the rest is program text."""


def module_folders(progress: Progress) -> Mapping[str, Path]:
    """Path of every module in go/custom-resources/go.mod -> a folder with its `config` folder. Fetched once, checked against go.sum.

    Raises RehearsalError.
    """
    folder = cache.folder()
    homes = _homes(folder)
    if not _all_there(homes):
        with cache.locked(folder, progress):
            _fetch(homes, folder, progress)
    return homes


def are_fetched() -> bool:
    """Whether every module is in the cache."""
    return _all_there(_homes(cache.place()))


def _homes(folder: Path) -> dict[str, Path]:
    return {path: folder / "modules" / f"{path}@{version}" for path, version in pinned().items()}


def _all_there(homes: Mapping[str, Path]) -> bool:
    return all((home / _KEPT).is_dir() for home in homes.values())


def pinned() -> Mapping[str, str]:
    """Version of every module, by path, from go.mod."""
    text = (_FOLDER / "go.mod").read_text(encoding="utf-8")
    return dict(re.findall(r"^\t(\S+) (v\S+)$", text, re.MULTILINE))


def _fetch(homes: Mapping[str, Path], folder: Path, progress: Progress) -> None:
    missing = {path: home for path, home in homes.items() if not (home / _KEPT).is_dir()}
    if not missing:  # another process fetched them meanwhile
        return
    go = toolchain.find(folder, progress)
    work = folder / "fetching"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(_FOLDER, work)
    progress(f"fetching {len(missing)} Go modules with definitions of custom resources")
    said = go_command.run(
        go, ["mod", "download", "-json"], folder=work, what="fetching the definitions of custom resources"
    )
    for module in _documents("\n".join(line for line in said if not line.startswith("go: "))):
        home = missing.get(module["Path"])
        if home is None:
            continue
        copy = work / "copy"
        shutil.copytree(Path(module["Dir"]) / _KEPT, copy / _KEPT, copy_function=shutil.copyfile)
        _make_writable(copy)
        shutil.rmtree(home, ignore_errors=True)
        home.parent.mkdir(parents=True, exist_ok=True)
        copy.rename(home)
    shutil.rmtree(work, ignore_errors=True)


def _documents(text: str) -> list[dict[str, str]]:
    decoder = json.JSONDecoder()
    found = []
    text = text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found


def _make_writable(folder: Path) -> None:
    """Make the copied folders writable: with Go's read-only folders, rm -r would fail."""
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
