"""Writes a recording as files: manifests, charts with values, and Google Cloud resources."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from facts.user_error import UserError
from fleet.clients.scratch import scratch
from fleet.preview.record.recording import RecordedResource, Recording
from fleet.preview.record.redact import Redactor
from fleet.preview.record.synthesis_kubernetes import RELEASE_TYPE
from fleet.preview.record.values import paths_of_unknowns
from fleet.preview.yaml_text import to_yaml

MARKER: Final = ".rendered-by-vllm-fleet"
"""A file in every folder that was written here: a folder without it is never replaced."""
INDEX: Final = "index.json"
_SHOWN_UNKNOWNS: Final = 10


class RenderError(UserError):
    """The recording cannot be written; one problem per line."""


def render(recording: Recording, out: Path) -> list[Path]:
    """Write a known-mode recording to the folder `out` and return the files, in order.

    All or nothing: the files are made beside `out` and take its place once complete. Raises `RenderError` when `out`
    was not written by this command, or when an unknown value would reach a manifest.
    """
    if recording.mode != "known":
        raise ValueError("only a known-mode recording has whole manifests")
    _refuse_foreign(out)
    files = _files(recording)
    out.parent.mkdir(parents=True, exist_ok=True)
    with _swapped_in(out) as folder:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    return [out / name for name in files]


def _files(recording: Recording) -> dict[str, str]:
    redactor = Redactor(recording.plaintexts)
    unknowns: list[str] = []
    files: dict[str, str] = {}
    index: list[dict[str, Any]] = []
    numbers = {"kubernetes": 0, "gcp": 0}
    for resource in recording.resources:
        package = resource.type.partition(":")[0]
        if package not in numbers or not resource.custom:
            continue
        numbers[package] += 1
        number = f"{numbers[package]:03}"
        if package == "gcp":
            folder, written = "google-cloud", _google_cloud(resource, redactor)
        else:
            # A chart has its place in the order, but in a folder of its own: `kubectl apply -f` would take its values
            # for a manifest.
            is_release = resource.type == RELEASE_TYPE
            folder = "helm" if is_release else "kubernetes"
            written = _release(resource, redactor) if is_release else _manifest(resource, redactor)
            unknowns += [f"{resource.urn}: {path}" for path in paths_of_unknowns(dict(resource.inputs))]
        for name, text in written.items():
            path = f"{folder}/{number}-{name}"
            files[path] = text
            index.append({"file": path, "type": resource.type, "name": resource.name, "urn": resource.urn})
    if unknowns:
        raise RenderError(_unknown_message(unknowns))
    head = {"project": recording.project, "stack": recording.stack}
    files[INDEX] = json.dumps({**head, "files": index}, indent=2) + "\n"
    return files


def _unknown_message(unknowns: list[str]) -> str:
    shown = unknowns[:_SHOWN_UNKNOWNS]
    rest = len(unknowns) - len(shown)
    lines = [
        f"{len(unknowns)} unknown value(s) would reach a manifest; set them, or read them in the cluster instead:",
        *(f"  {line}" for line in shown),
    ]
    return "\n".join(lines + ([f"  and {rest} more"] if rest else []))


def _manifest(resource: RecordedResource, redactor: Redactor) -> dict[str, str]:
    manifest = redactor.manifest(resource.type, resource.inputs)
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name") or resource.outputs["metadata"]["name"]
    manifest["metadata"] = {"name": name, **metadata}
    kind = str(manifest.get("kind", resource.type.rpartition(":")[2]))
    return {f"{_file_name(kind)}-{_file_name(str(name))}.yaml": to_yaml(manifest)}


def _release(resource: RecordedResource, redactor: Redactor) -> dict[str, str]:
    """A chart is not rendered here: its values and what to install are written, for `helm template` or `helm install`."""
    inputs = redactor.value(resource.inputs)
    name = str(inputs.get("name") or resource.outputs["name"])
    chart = {"name": name} | {key: inputs[key] for key in ("namespace", "chart", "version") if key in inputs}
    repository = (inputs.get("repositoryOpts") or {}).get("repo")
    if repository:
        chart["repository"] = repository
    stem = _file_name(name)
    return {f"{stem}.chart.yaml": to_yaml(chart), f"{stem}.values.yaml": to_yaml(inputs.get("values") or {})}


def _google_cloud(resource: RecordedResource, redactor: Redactor) -> dict[str, str]:
    document = {
        "urn": resource.urn,
        "type": resource.type,
        "name": resource.name,
        "protect": resource.protect,
        "dependencies": list(resource.dependencies),
        "inputs": redactor.manifest(resource.type, resource.inputs),
    }
    kind = _file_name(resource.type.rpartition(":")[2])
    return {f"{kind}-{_file_name(resource.name)}.json": json.dumps(document, indent=2) + "\n"}


def _file_name(text: str) -> str:
    """Lower case, with nothing a file system or a shell could take offence at."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def _refuse_foreign(out: Path) -> None:
    if out.is_dir():
        if not (out / MARKER).is_file() and any(out.iterdir()):
            raise RenderError(
                f"{out} is not empty and was not written by `fleet preview --out`; name another folder, or remove it yourself"
            )
        return
    there = next(path for path in (out, *out.parents) if path.exists() or path.is_symlink())
    if not there.is_dir():
        raise RenderError(f"{there} is not a folder; name one that is empty or does not exist yet")


@contextlib.contextmanager
def _swapped_in(out: Path) -> Iterator[Path]:
    """A fresh folder that takes the place of `out` at the end, or vanishes if anything fails."""
    try:
        with scratch("render", out) as fresh, scratch("render", out) as old:
            (fresh / MARKER).write_text("This folder is replaced as a whole by the next `fleet preview --out`.\n")
            yield fresh
            fresh.chmod(0o755)  # a scratch folder's own is for its owner alone
            if out.exists():
                out.rename(old / out.name)
            try:
                fresh.rename(out)
            except OSError:
                with contextlib.suppress(OSError):
                    (old / out.name).rename(out)
                raise
    except OSError as error:
        raise RenderError(f"{out} could not be written: {error.strerror or error}") from error
