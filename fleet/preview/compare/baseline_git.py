"""Records the program at a git reference, in a separate process and a temporary folder.

One process cannot import two versions of the code, and the user's checkout must not change: git writes the
reference's files into a temporary folder, through a temporary index. The recorder is this version's; the
program, settings and stack files are the reference's; the packages are this interpreter's.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from facts.names import stack_names
from facts.redact import Redactor, plaintexts_in
from fleet import CODE
from fleet.clients.scratch import scratch
from fleet.preview import children
from fleet.preview.compare.baseline import Baseline, BaselineError
from fleet.preview.compare.baseline_process import result_name
from fleet.preview.record.recording import Recording
from settings.checks.placeholders import PLACEHOLDER_PROJECT, STAND_IN_PROJECT
from settings.problems import SettingsError
from settings.sections.section import NAMESPACE
from settings.stack_file import content, read

if TYPE_CHECKING:
    from types import TracebackType

_SECONDS: Final = 120.0
"""Timeout. Assumed: a recording takes seconds."""
_LOOK_SECONDS: Final = 0.005
"""Polling interval for a result; a check costs some microseconds."""
_SHORT: Final = 8
"""Digits shown of a commit."""
_START: Final = "import sys; sys.path.insert(0, sys.argv[1]); from fleet.preview.compare.baseline_process import main; main(sys.argv[2])"
_KEPT_STDERR_LINES: Final = 12


class GitBaseline:
    """One reference and the stacks to record at it."""

    def __init__(self, reference: str, root: Path, stacks: Sequence[str]) -> None:
        self._root, self._wanted = root, tuple(stacks)
        self._cleanup = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            commit = _resolve(reference, root)
            self._label = commit[:_SHORT] if reference == commit else f"{reference} ({commit[:_SHORT]})"
            self._begin(commit, self._cleanup.enter_context(scratch("against")))
        except BaseException:
            self._cleanup.close()
            raise

    def __enter__(self) -> GitBaseline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def _begin(self, commit: str, folder: Path) -> None:
        self._folder, self._checkout = folder, folder / "checkout"
        _check_out(commit, self._root, folder, self._checkout)
        self._configs = _stack_files(self._checkout)
        readable = [stack for stack in self._wanted if isinstance(self._configs.get(stack), dict)]
        if readable:
            job = {"root": str(self._checkout), "project": NAMESPACE, "stacks": readable, "configs": self._configs}
            (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
            command = (sys.executable, "-c", _START, str(CODE), str(folder))
            self._process = children.spawn(command, cwd=self._checkout, env=_environment())
            self._cleanup.callback(_end, self._process)

    def wait(self, stack: str) -> Baseline:
        """The recording of the reference's program for one stack, in preview mode."""
        config = self._configs.get(stack)
        if isinstance(config, str):
            raise BaselineError(f"Pulumi.{stack}.yaml of {self._label} cannot be read: {config}")
        if config is None:
            nothing = Recording(
                project=NAMESPACE, stack=stack, mode="preview", resources=(), outputs={}, diagnostics=()
            )
            remark = f"{self._label} has no Pulumi.{stack}.yaml: everything is new."
            return Baseline(recording=nothing, label=self._label, remarks=(remark,))
        recorded = pickle.loads(self._result(stack))  # noqa: S301 - by a process of ours, of our own dataclasses
        if isinstance(recorded, str):
            raise BaselineError(f"the program of {self._label} could not be recorded: {_hidden(recorded, config)}")
        remarks = (
            *_differing_pins(self._checkout, self._root, self._label),
            *_sealed_anew(self._checkout, self._root, stack, self._label),
        )
        return Baseline(recording=recorded, label=self._label, remarks=remarks)

    def _result(self, stack: str) -> bytes:
        """Waits for the process's result for the stack."""
        assert self._process is not None, "a stack that can be read has been asked for"
        file = self._folder / result_name(stack)
        deadline = time.monotonic() + _SECONDS
        while not file.is_file():
            ended = self._process.poll() is not None
            if ended and not file.is_file():
                raise BaselineError(self._complaint(self._process))
            if time.monotonic() > deadline:
                raise BaselineError(f"the program of {self._label} was not recorded within {_SECONDS:.0f} s")
            time.sleep(_LOOK_SECONDS)
        return file.read_bytes()

    def _complaint(self, process: subprocess.Popen[bytes]) -> str:
        _, said = process.communicate()
        tail = "\n".join(said.decode(errors="replace").splitlines()[-_KEPT_STDERR_LINES:])
        ended = f"the process that records {self._label} ended with {process.returncode}"
        return f"{ended}:\n{tail}" if tail else ended


def _hidden(message: str, config: Mapping[str, Any]) -> str:
    """A message of another version's program, with secrets redacted by this version's settings."""
    values = {key: _opened(text) for key, text in config["config"].items()}
    return Redactor(plaintexts_in([values], any_name=True)).text(message)


def _opened(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _end(process: subprocess.Popen[bytes]) -> None:
    children.end(process)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _resolve(reference: str, root: Path) -> str:
    try:
        inside = run_git("rev-parse", "--is-inside-work-tree", root=root)
    except FileNotFoundError:
        raise BaselineError("--against with a git reference requires git, which is not installed") from None
    if inside.returncode:
        raise BaselineError(f"{root} is not in a git repository, so {reference} cannot be read")
    commit = _commit_of(reference, root)
    if commit is None:
        shallow = run_git("rev-parse", "--is-shallow-repository", root=root).stdout.strip() == b"true"
        hint = (
            f"did you mean origin/{reference}?"
            if _commit_of(f"origin/{reference}", root)
            else "this clone is shallow; run git fetch --depth=1 origin BRANCH, then --against FETCH_HEAD"
            if shallow
            else "list references with git branch --all and git tag"
        )
        raise BaselineError(f"git reference {reference!r} not found; {hint}")
    return commit


def _commit_of(reference: str, root: Path) -> str | None:
    found = run_git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}", root=root)
    return None if found.returncode else found.stdout.decode().strip()


def _check_out(commit: str, root: Path, folder: Path, checkout: Path) -> None:
    """Write the project's folder at `commit`, using only the repository's objects."""
    prefix = os.fsdecode(run_git("rev-parse", "--show-prefix", root=root).stdout).removesuffix("\n")
    checkout.mkdir()
    tree = run_git("rev-parse", "--verify", "--quiet", f"{commit}:{prefix.rstrip('/')}", root=root)
    if tree.returncode:
        return  # the project's folder did not exist yet
    repository = os.fsdecode(run_git("rev-parse", "--absolute-git-dir", root=root).stdout).removesuffix("\n")
    # With a work tree of its own: git would read attributes, such as an encoding, from the user's.
    apart = {"GIT_DIR": repository, "GIT_WORK_TREE": str(checkout), "GIT_INDEX_FILE": str(folder / "index")}
    for arguments in (("read-tree", tree.stdout.decode().strip()), ("checkout-index", "--all", "--quiet")):
        done = run_git(*arguments, root=checkout, **apart)
        if done.returncode:
            raise BaselineError(f"git could not check out {commit[:_SHORT]}: {os.fsdecode(done.stderr).strip()}")


def run_git(*arguments: str, root: Path, **extra: str) -> subprocess.CompletedProcess[bytes]:
    """One git command about the repository of `root`."""
    # Set by git for its hooks; they would redirect every call away from `root`.
    env = {key: value for key, value in os.environ.items() if key not in _GIT_STATE}
    # Large files are not part of the program, and fetching them needs a network.
    env |= {"GIT_LFS_SKIP_SMUDGE": "1", "GIT_OPTIONAL_LOCKS": "0", **extra}
    return subprocess.run(("git", *arguments), cwd=root, env=env, capture_output=True, check=False)


_GIT_STATE: Final = frozenset(("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"))


def _environment() -> dict[str, str]:
    # The folder is temporary: do not write bytecode.
    return os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}


def _stack_files(checkout: Path) -> Mapping[str, Any]:
    """Per stack file its configuration and secret keys, or the error."""
    configs: dict[str, Any] = {}
    for name in stack_names(checkout):
        try:
            file = read(checkout, name)
        except SettingsError as error:
            configs[name] = str(error)
            continue
        configs[name] = {"config": stood_in(file.config), "secret_keys": sorted(file.secret_keys)}
    return configs


def stood_in(config: Mapping[str, str]) -> dict[str, str]:
    """The configuration with the placeholder project replaced, as on the other side."""
    return {
        key: STAND_IN_PROJECT if key == "gcp:project" and value == PLACEHOLDER_PROJECT else value
        for key, value in config.items()
    }


def _differing_pins(checkout: Path, root: Path, label: str) -> Iterator[str]:
    theirs, ours = (_pins(folder / "requirements.txt") for folder in (checkout, root))
    differing = [f"{name} {theirs[name]}" for name in sorted(theirs.keys() & ours.keys()) if theirs[name] != ours[name]]
    if differing:
        yield f"{label} pins {', '.join(differing)}; its program was recorded with the installed packages."


def _pins(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    lines = (line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return {
        name.strip(): version.strip() for line in lines for name, equals, version in (line.partition("=="),) if equals
    }


def _sealed_anew(checkout: Path, root: Path, stack: str, label: str) -> Iterator[str]:
    theirs, ours = (_sealed(folder / f"Pulumi.{stack}.yaml", stack) for folder in (checkout, root))
    anew = sorted(key for key in theirs.keys() & ours.keys() if theirs[key] != ours[key])
    if anew:
        yield (
            f"Re-encrypted since {label}: {', '.join(anew)}. Whether the value changed is unknown; resources that use "
            "it are shown as unchanged."
        )


def _sealed(file: Path, stack: str) -> dict[str, str]:
    config = (content(file, stack).get("config") or {}) if file.is_file() else {}
    return {
        key: str(value["secure"])
        for key, value in config.items()
        if isinstance(value, dict) and set(value) == {"secure"}
    }
