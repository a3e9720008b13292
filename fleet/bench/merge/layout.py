"""Files of a folder by run, and excluded files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from os.path import realpath
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import (
    CLIENT_FILE,
    DCGM_FILE,
    MERGED_FILE,
    METRICS_FILE,
    RUN_FILE,
    RUN_FOLDER,
    Asked,
    is_input,
)
from fleet.bench.measurement import Excluded
from fleet.bench.merge.problems import Problem, merge_command, refuse

T = TypeVar("T", bound=BaseModel)
_BY_REASON: Final = "reason:"
_OWN_SUFFIXES: Final = (".witness.json", ".pytorch.json")
"""Of files beside a result that are not results: the witness, and what vLLM writes for PyTorch's dashboards."""

_FAULTS_NAMED: Final = 3
"""Of one file."""


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """One run's files, by paths."""

    name: str
    point: int
    repeat: int
    results: tuple[Path, ...]
    witnesses: tuple[Path, ...]
    pods: tuple[Path, ...]
    metrics: Path | None
    bare: bool


@dataclass
class Layout:
    """The files of a folder to merge."""

    folder: Path
    """Messages name files within it."""
    asked: Asked | None
    runs: list[RunFiles]
    dcgm: Path | None
    single: bool
    """Whether the folder is one run of a measurement, so that other runs are not missing."""
    problems: list[Problem]
    excluded: list[Excluded] = field(default_factory=list)

    def shown(self, path: Path) -> str:
        """How messages name a file."""
        return path.relative_to(self.folder).as_posix() if path.is_relative_to(self.folder) else str(path)


class Choice:
    """The `--exclude` options, and which of them matched."""

    def __init__(self, patterns: tuple[str, ...], folder: Path) -> None:
        self.reasons = {text.removeprefix(_BY_REASON) for text in patterns if text.startswith(_BY_REASON)}
        self.patterns = {text: within(text, folder) for text in patterns if not text.startswith(_BY_REASON)}
        self.used: set[str] = set()
        self.excluded: dict[str, str] = {}

    def leaves_out(self, shown: str) -> bool:
        """Whether a file is named by a path, a name, a pattern, or a folder above it."""
        path = shown.partition(":")[0]
        for pattern, texts in self.patterns.items():
            for text in texts:
                fits = any(fnmatchcase(one, text) for one in (shown, path, path.rpartition("/")[2]))
                if fits or path.startswith(f"{text}/"):
                    self.used.add(pattern)
                    self.excluded.setdefault(shown, "named by --exclude")
                    return True
        return False

    def sift(self, problems: list[Problem]) -> list[Problem]:
        """The remaining problems; records files that a reason excludes."""
        remaining = []
        for problem in problems:
            if problem.can_exclude and problem.reason in self.reasons:
                self.used.add(_BY_REASON + problem.reason)
                self.excluded[problem.file] = problem.found
            elif problem.can_exclude and ":" in problem.file and self.leaves_out(problem.file):
                continue  # one result of a file of several
            else:
                remaining.append(problem)
        return remaining

    def check_used(self, folder: Path) -> None:
        """Raise BenchmarkError for an `--exclude` that matches nothing."""
        unused = [text for text in self.patterns if text not in self.used]
        unused += sorted(f"{_BY_REASON}{word}" for word in self.reasons if _BY_REASON + word not in self.used)
        if unused:
            raise BenchmarkError(
                f"--exclude {unused[0]} matches no file in {folder} and no problem; write a path within the folder, a file's name, a "
                "pattern, or reason:WORD with the word in brackets of the error"
            )

    def notes(self) -> tuple[Excluded, ...]:
        """For the measurement."""
        return tuple(Excluded(file=file, why=why) for file, why in sorted(self.excluded.items()))


def within(text: str, folder: Path) -> tuple[str, ...]:
    """How files in the folder may be named by that text: as it stands and, last, from the folder on where it leads into it."""
    written = text.removeprefix("./").rstrip("/")
    place, home = Path(realpath(Path(text).parent)) / Path(text).name, Path(realpath(folder))
    inside = place.relative_to(home).as_posix() if place.is_relative_to(home) and place != home else written
    return tuple(dict.fromkeys((written, inside)))


def find(folder: Path, choice: Choice, *, allow_missing: bool) -> Layout:
    """The layout of a measurement, of one run of it, or of bare results. Raises BenchmarkError."""
    if not folder.is_dir():
        raise BenchmarkError(
            f"{folder} is not a folder; pass the folder of a measurement with run.json, or one of clients' results"
        )
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and RUN_FOLDER.fullmatch(path.name))
    problems: list[Problem] = []
    parent = folder.resolve().parent
    single = (
        not (folder / RUN_FILE).is_file() and not inside and RUN_FOLDER.fullmatch(folder.resolve().name) is not None
    )
    home = parent if single and (parent / RUN_FILE).is_file() else folder
    asked = None
    if (home / RUN_FILE).is_file():
        asked, found = read_file(home / RUN_FILE, RUN_FILE, Asked)
        # Nothing can be assigned to runs without run.json.
        refuse(folder, [replace(one, can_exclude=False) for one in found])
    elif inside and not allow_missing:
        problems.append(
            Problem(
                file=RUN_FILE,
                reason="missing",
                found="missing",
                allowed="the file that the measurement was started with",
                todo=f"download it, or merge without it: {merge_command(folder)} --allow-missing",
                can_exclude=False,
            )
        )
    if inside:
        runs = [_run(path, path.name, choice, folder, problems) for path in inside if not choice.leaves_out(path.name)]
        runs.sort(key=lambda run: (run.point, run.repeat))
        problems += _strays(folder)
    else:
        runs = [_bare(folder, choice, single)]
    problems += _unreadable_names(folder)
    dcgm = home / DCGM_FILE
    return Layout(
        folder=folder,
        asked=asked,
        runs=runs,
        dcgm=dcgm if dcgm.is_file() and not choice.leaves_out(DCGM_FILE) else None,
        single=single,
        problems=problems,
    )


def _run(path: Path, name: str, choice: Choice, folder: Path, problems: list[Problem]) -> RunFiles:
    match = RUN_FOLDER.fullmatch(path.name)
    files = [one for one in sorted(path.iterdir()) if one.is_file() and not choice.leaves_out(f"{name}/{one.name}")]
    results = [file for file in files if CLIENT_FILE.fullmatch(file.name)]
    witnesses = [file for file in files if file.name.endswith(".witness.json")]
    pods = [file for file in files if file.name.startswith("pod-") and file.suffix == ".json"]
    for file in files:
        if (
            file.name != MERGED_FILE
            and file.suffix in (".json", ".jsonl")
            and file not in (*results, *witnesses, *pods)
            and not file.name.endswith(_OWN_SUFFIXES)
        ):
            problems.append(
                Problem(
                    file=file.relative_to(folder).as_posix(),
                    reason="unknown-file",
                    found="unknown file",
                    allowed="client-NNN.json, client-NNN.witness.json, pod-N.json and server-metrics.jsonl.gz",
                )
            )
    metrics = next((file for file in files if file.name == METRICS_FILE), None)
    return RunFiles(
        name=name,
        point=int(match["point"]) if match else 0,
        repeat=int(match["repeat"]) if match else 0,
        results=tuple(results),
        witnesses=tuple(witnesses),
        pods=tuple(pods),
        metrics=metrics,
        bare=False,
    )


def _bare(folder: Path, choice: Choice, single: bool) -> RunFiles:
    """A folder with results of any name, as `vllm bench serve --result-dir` leaves them, or one run of a measurement."""
    if single:
        run = _run(folder, folder.resolve().name, _Inside(choice), folder, [])
        if run.results:
            return run
    files = [one for one in sorted(folder.iterdir()) if one.is_file() and not choice.leaves_out(one.name)]
    results = [file for file in files if is_result(file.name, bare=True)]
    return RunFiles(
        name=folder.resolve().name,
        point=0,
        repeat=0,
        results=tuple(results),
        witnesses=tuple(file for file in files if file.name.endswith(".witness.json")),
        pods=tuple(file for file in files if file.name.startswith("pod-") and file.suffix == ".json"),
        metrics=next((file for file in files if file.name == METRICS_FILE), None),
        bare=True,
    )


def is_result(shown: str, *, bare: bool) -> bool:
    """Whether a file, or one line of it, is a client's result by its name; in a bare folder every JSON file that is nothing else."""
    name = shown.rpartition("/")[2].partition(":")[0]
    if not bare:
        return CLIENT_FILE.fullmatch(name) is not None
    known = name in (RUN_FILE, DCGM_FILE, MERGED_FILE) or name.startswith("pod-") or name.endswith(_OWN_SUFFIXES)
    return name.endswith((".json", ".jsonl")) and not known


class _Inside(Choice):
    """A choice for files that are named without their run's folder."""

    def __init__(self, choice: Choice) -> None:
        super().__init__((), Path())
        self._choice = choice

    def leaves_out(self, shown: str) -> bool:
        """As the choice says of the name alone."""
        return self._choice.leaves_out(shown.rpartition("/")[2])


def _unreadable_names(folder: Path) -> Iterator[Problem]:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if is_input(path, folder) and not name.isprintable():
            yield Problem(
                file=name,
                reason="bad-name",
                found="its name has control characters or bytes that are not UTF-8",
                allowed="text",
                todo="rename it",
                can_exclude=False,
            )


def _strays(folder: Path) -> list[Problem]:
    """Results outside the runs' folders."""
    return [
        Problem(
            file=one.name,
            reason="unknown-file",
            found="the result is outside the runs' folders",
            allowed="a place in its run's folder",
        )
        for one in sorted(folder.iterdir())
        if one.is_file() and CLIENT_FILE.fullmatch(one.name)
    ]


def read_file(path: Path, shown: str, model: type[T]) -> tuple[T | None, list[Problem]]:
    """One of our files, validated."""
    data = path.read_bytes()
    try:
        return model.model_validate_json(data), []
    except ValidationError as error:
        errors = error.errors(include_url=False)
    name = shown.rpartition("/")[2]
    allowed = f"a {name} as `fleet bench run` writes it"
    for one in errors:
        if one["type"] == "json_invalid":
            found = f"it is not complete JSON: {one['msg']} ({len(data)} bytes)"
            return None, [
                Problem(
                    file=shown, reason="truncated", found=found, allowed="one JSON object", todo="download it again"
                )
            ]
        if one["loc"] == ("schema",):
            return None, [
                Problem(
                    file=shown,
                    reason="unknown-schema",
                    found=f"schema is {one['input']!r}",
                    allowed="1 in this version of fleet",
                    todo="merge it with the version that wrote it",
                )
            ]
    missing = [str(one["loc"][0]) for one in errors if one["type"] == "missing" and len(one["loc"]) == 1]
    needed = sum(field.is_required() for field in model.model_fields.values())
    if 2 * len(missing) > needed:
        found, todo = f"missing keys: {_few(missing)}", "download it again"
        return None, [Problem(file=shown, reason="bad-file", found=found, allowed=allowed, todo=todo)]
    faults = [f"{'.'.join(str(part) for part in one['loc']) or 'it'}: {one['msg']}" for one in errors]
    return None, [Problem(file=shown, reason="bad-file", found=_few(faults), allowed=allowed)]


def _few(texts: list[str]) -> str:
    """The first few."""
    more = len(texts) - _FAULTS_NAMED
    return ", ".join(texts[:_FAULTS_NAMED]) + (f" and {more} more" if more > 0 else "")
