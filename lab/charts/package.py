"""A chart's folder as an archive, as `helm package` makes it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.results.result import RehearsalError

Files = Mapping[str, bytes]
"""Content of a chart by path in its folder, without Chart.yaml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A packaged chart, and the host and path where the program looks for it."""

    host: str
    path: str
    """`charts` of an index, or the repository of an OCI registry."""
    is_oci: bool
    metadata: Mapping[str, Any]
    archive: bytes

    @property
    def version(self) -> str:
        """E.g. "2.20.2"."""
        return str(self.metadata["version"])


def from_folder(folder: Path, version: str) -> tuple[dict[str, Any], bytes]:
    """Metadata and archive of a chart, with libraries of its sibling folders. Raises RehearsalError."""
    if not (folder / "Chart.yaml").is_file():
        raise RehearsalError(f"{folder} has no Chart.yaml")
    metadata = {"appVersion": version, **_metadata(folder), "version": version}
    files = dict(_files(folder))
    for needed in metadata.get("dependencies") or ():
        if needed.get("repository", "").startswith("file://"):
            library = (folder / needed["repository"].removeprefix("file://")).resolve()
            prefix = f"charts/{needed['name']}"
            files[f"{prefix}/Chart.yaml"] = yaml.safe_dump(_metadata(library)).encode()
            files.update((f"{prefix}/{path}", content) for path, content in _files(library))
    return metadata, archive(metadata, files)


def archive(metadata: Mapping[str, Any], files: Files) -> bytes:
    """The chart as a compressed archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, content in {"Chart.yaml": yaml.safe_dump(dict(metadata)).encode(), **files}.items():
            entry = tarfile.TarInfo(f"{metadata['name']}/{path}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _metadata(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
    return loaded


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in ("Chart.yaml", "Chart.lock"):
            yield str(path.relative_to(folder)), path.read_bytes()
