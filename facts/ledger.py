"""The ledger: every published figure and price, from the files in facts/data.

Each file has one subject (prices, one run of measurements, ...) and is parsed once, when needed. An entry's address is `<file>.<id>`,
for example `phases.tp8`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from facts.user_error import UserError

DATA_FOLDER = Path(__file__).parent / "data"


class LedgerError(UserError, LookupError):
    """An unknown or invalid file or entry of the ledger. The message lists the known ones."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Source of a number."""

    id: str
    title: str
    date: str
    """ISO date, or a text if the source has none."""
    url: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispute:
    """A contradiction within a source, or with a later measurement. All values are kept."""

    id: str
    subject: str
    values: tuple[str, ...]
    note: str


@cache
def load(name: str) -> Mapping[str, Any]:
    """The file `facts/data/<name>.yaml`. Raises LedgerError with the known names."""
    path = DATA_FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise LedgerError(f"the ledger has no file {name!r}; it has {', '.join(names())}")
    return read(path)


def read(path: Path) -> Mapping[str, Any]:
    """A YAML file with a mapping. Raises LedgerError."""
    content = parse(path)
    if not isinstance(content, dict):
        raise LedgerError(f"{path.name}: the file must be a mapping, got {type(content).__name__}")
    return content


def names() -> tuple[str, ...]:
    """Names of all files, sorted."""
    return tuple(sorted(path.stem for path in DATA_FOLDER.glob("*.yaml")))


def section(file: str, key: str) -> Mapping[str, Any]:
    """One top-level mapping of a file."""
    content = load(file)
    value = content.get(key)
    if not isinstance(value, dict):
        raise LedgerError(f"{file}.yaml has no section {key!r}; it has {', '.join(sorted(content))}")
    return value


def entry(file: str, key: str, id_: str) -> Mapping[str, Any]:
    """One entry of a section. Raises LedgerError with the known ids."""
    entries = section(file, key)
    value = entries.get(id_)
    if not isinstance(value, dict):
        raise LedgerError(f"{file}.yaml has no entry {id_!r} in {key!r}; it has {', '.join(sorted(entries))}")
    return value


def value(key: str) -> Any:
    """One value by file and keys, for example "phases.figures.tp8.total_tokens_per_s". Raises LedgerError."""
    file, *steps = key.split(".")
    found: Any = load(file)
    for step in steps:
        if not isinstance(found, Mapping) or step not in found:
            raise LedgerError(f"the ledger has no {key!r}: {step!r} does not exist")
        found = found[step]
    return found


@cache
def source(id_: str) -> Source:
    """The source with that id, from sources.yaml."""
    fields = entry("sources", "sources", id_)
    try:
        return Source(id=id_, **{**fields, "date": str(fields["date"])})
    except (KeyError, TypeError) as error:
        raise LedgerError(f"sources.yaml, {id_}: {error}") from error


def dispute(id_: str) -> Dispute:
    """The dispute with that id, from disputes.yaml."""
    fields = entry("disputes", "disputes", id_)
    return Dispute(
        id=id_,
        subject=fields["subject"],
        values=tuple(str(value) for value in fields["values"]),
        note=fields["note"].strip(),
    )


def parse(path: Path) -> object:
    """The content of a YAML file. Raises LedgerError for invalid YAML."""
    # Imported here, because it is slow and most commands need no figure.
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as error:
        raise LedgerError(f"{path.name} is not valid YAML: {error}") from error
