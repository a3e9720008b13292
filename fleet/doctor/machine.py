"""Prerequisites of each step on this machine, and the command that installs each. Reads no secret."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from facts.finding import Finding
from facts.names import stack_names
from fleet import CODE, program_folder
from fleet.doctor import code_owners
from fleet.doctor.packages import install_command, pip_install
from fleet.preview.judging_files import judging_files
from fleet.preview.policy_config import PolicyError, config_file, read_config

Step = Literal["preview", "rehearse", "up", "bench", "pull-requests"]
STEPS: tuple[Step, ...] = ("preview", "rehearse", "up", "bench", "pull-requests")

MIN_PYTHON = (3, 11)
"""Source: pyproject.toml, requires-python."""
_RUNS: tuple[Step, ...] = ("preview", "rehearse", "up", "bench")
"""Steps that run the program."""
_LIVE: tuple[Step, ...] = ("up", "bench")
"""Steps that reach a stack in the cloud."""
_LOGIN = "gcloud auth login --update-adc"
"""Both of gcloud's logins, as in README."""
_FIRST_STACK = "smoke"
"""The stack that README brings up first."""
_MOST_FAULTS = 6
_TOOLS = (
    ("gcloud", "login; installs the plugin and kubectl", "https://cloud.google.com/sdk/docs/install"),
    (
        "gke-gcloud-auth-plugin",
        "the stack's kubeconfig calls it for every connection to the cluster",
        "gcloud components install gke-gcloud-auth-plugin",
    ),
    ("kubectl", "inspects the running fleet", "gcloud components install kubectl"),
)
_BENCHMARK_WHY = (
    "percentiles, pictures, HTTP and Google Cloud of `fleet bench`, `fleet verify` and `fleet doctor --live`"
)
_OWNERS_TEMPLATE = ".github/CODEOWNERS.template"
_VERSION_SECONDS = 10
"""Assumed: a tool that takes longer to print its version counts as missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prerequisite:
    """One prerequisite."""

    steps: tuple[Step, ...]
    """The steps that need it."""
    finding: Finding


def prerequisite(*, name: str, steps: tuple[Step, ...], ok: bool, found: str, why: str, mend: str) -> Prerequisite:
    """`found`: what is there, or what is wrong. The last argument is the command that fixes it."""
    finding = Finding(
        id=name.replace(" ", "-"),
        subject=name,
        severity="passed" if ok else "error",
        found=found,
        why=why,
        write="" if ok else mend,
    )
    return Prerequisite(steps=steps, finding=finding)


def inspect_machine(
    root: Path, stack: str | None = None, *, of_rehearsals: Iterable[Callable[[], Prerequisite]] = ()
) -> tuple[Prerequisite, ...]:
    """Every check, in the order of the steps. With `stack`, only that stack's project id is checked."""
    checks: list[Callable[[], Prerequisite]] = [
        _python,
        lambda: _packages(root),
        lambda: _packages_of("rehearsal", "rehearse", "a client of Kubernetes, certificates, HTTP"),
        lambda: _packages_of("benchmark", "bench", _BENCHMARK_WHY),
        *of_rehearsals,
        lambda: _pulumi(root),
        _pulumi_login,
        *(partial(_tool, name, why, mend) for name, why, mend in _TOOLS),
        _gcloud_login,
        _google_credentials,
        lambda: _project_id(root, stack),
        lambda: _code_owners(root),
        lambda: _limits(root, stack),
    ]
    # In parallel: a tool takes up to a second to print its version.
    with ThreadPoolExecutor(max_workers=len(checks)) as pool:
        return tuple(pool.map(lambda check: check(), checks))


def needed_by(checks: tuple[Prerequisite, ...], step: Step) -> tuple[Finding, ...]:
    """What `step` needs."""
    return tuple(check.finding for check in checks if step in check.steps)


def _python() -> Prerequisite:
    return prerequisite(
        name="python",
        steps=_RUNS,
        ok=sys.version_info >= MIN_PYTHON,
        found=".".join(map(str, sys.version_info[:3])),
        why=f"runs the program; {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or newer",
        mend="install Python 3.11 or newer and recreate the virtual environment: make setup",
    )


def _packages(root: Path) -> Prerequisite:
    # Not `make setup`, which skips the installation if its stamp file is there.
    why = "the program and this command, at the versions of requirements.txt and pyproject.toml"
    return _pinned_packages("packages", _RUNS, _pins(root), why, pip_install("fleet"))


def _packages_of(which: str, step: Step, why: str) -> Prerequisite:
    """The packages that one step needs as well."""
    pins = _pinned(_declared()["optional-dependencies"][which])
    why = f"{why}, at the versions of pyproject.toml"
    return _pinned_packages(f"{which} packages", (step,), pins, why, install_command(which))


def _pinned_packages(
    name: str, steps: tuple[Step, ...], pins: Iterator[tuple[str, str]], why: str, mend: str
) -> Prerequisite:
    wrong = [
        f"{package} {installed or 'missing'}, pinned {pinned}"
        for package, pinned in pins
        if (installed := _installed(package)) != pinned
    ]
    found = "; ".join(wrong) or "all at their pinned versions"
    return prerequisite(name=name, steps=steps, ok=not wrong, found=found, why=why, mend=mend)


def _pins(root: Path) -> Iterator[tuple[str, str]]:
    """Name and version of every pinned package that the program and `fleet` need."""
    program = program_folder(root) / "requirements.txt"
    lines = program.read_text(encoding="utf-8").splitlines() if program.is_file() else ()
    yield from dict((*_pinned(_declared()["dependencies"]), *_pinned(lines))).items()


def _declared() -> dict[str, Any]:
    """What pyproject.toml says of this project."""
    project: dict[str, Any] = tomllib.loads((CODE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _pinned(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Name and version of every package that these lines pin."""
    for line in lines:
        match = re.match(r"([A-Za-z0-9_.-]+)==([^\s;#]+)", line)
        # The one marker that there is.
        if match and ("sys_platform == 'linux'" not in line or sys.platform == "linux"):
            yield match[1], match[2]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _pulumi(root: Path) -> Prerequisite:
    found = version_of("pulumi", "version")
    needed = dict(_pins(root)).get("pulumi", "3")
    low, high = numbers_of(needed), (numbers_of(needed)[0] + 1,)
    return prerequisite(
        name="pulumi",
        steps=_LIVE,
        ok=found is not None and low <= numbers_of(found) < high,
        found=found or "not on PATH",
        why=f"the engine; {needed} (the SDK's version) or newer, of the same major version",
        mend=f"curl -fsSL https://get.pulumi.com | sh -s -- --version {needed}",
    )


def _pulumi_login() -> Prerequisite:
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    where = next((name for name in ("PULUMI_ACCESS_TOKEN", "PULUMI_BACKEND_URL") if os.environ.get(name)), None)
    if where is None and (home / "credentials.json").is_file():
        where = str(home / "credentials.json")
    return prerequisite(
        name="pulumi login",
        steps=_LIVE,
        ok=where is not None,
        found=f"{where} is there (not read)" if where else "no login, token or backend",
        why="where Pulumi keeps the state of your stacks",
        mend="pulumi login   (or, to keep the state in your own bucket: pulumi login gs://BUCKET)",
    )


def _gcloud_login() -> Prerequisite:
    """Login of gcloud itself, separate from the application default credentials."""
    said = _output("gcloud", "auth", "list", "--filter=status:ACTIVE", "--format=value(account)")
    account = said.strip() if said is not None else ""
    return prerequisite(
        name="gcloud login",
        steps=_LIVE,
        ok=bool(account),
        found=f"{account} is active" if account else "no account is active",
        why="identity used by gke-gcloud-auth-plugin and kubectl, and for the results bucket without application default credentials",
        mend=_LOGIN,
    )


def _google_credentials() -> Prerequisite:
    named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    config = Path(os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud")
    default = config / "application_default_credentials.json"
    if named and not Path(named).is_file():
        ok, found = False, "GOOGLE_APPLICATION_CREDENTIALS names a file that is not there"
    elif named:
        ok, found = True, "GOOGLE_APPLICATION_CREDENTIALS names a file (not read)"
    elif token := next((n for n in ("GOOGLE_OAUTH_ACCESS_TOKEN", "GOOGLE_CREDENTIALS") if os.environ.get(n)), None):
        ok, found = True, f"{token} is set (not read)"
    else:
        ok = default.is_file()
        found = "application default credentials are there (not read)" if ok else "no credentials found"
    return prerequisite(
        name="google credentials",
        steps=("up",),
        ok=ok,
        found=found,
        why="identity of Pulumi's Google Cloud provider",
        mend=_LOGIN,
    )


def _project_id(root: Path, stack: str | None) -> Prerequisite:
    """Without --stack, one configured stack is enough."""
    lacks = {name: _lacks_project_id(root, name) for name in ((stack,) if stack else stack_names(root))}
    having = ", ".join(name for name, lack in lacks.items() if not lack)
    by_lack = {lack: [name for name in lacks if lacks[name] == lack] for lack in lacks.values()}
    lacking = "; ".join(f"{lack} in {', '.join(names)}" for lack, names in by_lack.items())
    first = _FIRST_STACK if lacks.get(_FIRST_STACK) else next((name for name in lacks if lacks[name]), stack or "NAME")
    return prerequisite(
        name="project id",
        steps=_LIVE,
        ok=bool(having),
        found=f"set in {having}" if having else lacking or "the project has no stack file",
        why="gcp:project of the stack file: the project that runs and pays for the fleet",
        mend=f"pulumi config set gcp:project MY-PROJECT --stack {first}",
    )


def _lacks_project_id(root: Path, stack: str) -> str:
    """What is wrong with gcp:project of that stack; empty if nothing is."""
    try:
        from settings.checks.placeholders import PLACEHOLDER_PROJECT
        from settings.problems import SettingsError
        from settings.stack_file import read
    except ImportError as error:
        return f"not checked ({error})"
    try:
        file = read(root, stack)
    except SettingsError:
        return "unreadable stack file"
    project = file.config.get("gcp:project")
    if not project:
        return f"set by environment {', '.join(file.unopened)}" if file.unopened else "missing"
    return "still the placeholder" if project == PLACEHOLDER_PROJECT else ""


def _code_owners(root: Path) -> Prerequisite:
    """A change of what judges changes needs a review."""
    place = code_owners.find(root)
    if place:
        text = (root / place).read_text(encoding="utf-8", errors="replace")
        wrong = list(code_owners.faults(code_owners.read(text), judging_files(root)))
    else:
        wrong = [f"there is no {code_owners.PLACES[0]}"]
    return prerequisite(
        name="code owners",
        steps=("pull-requests",),
        ok=not wrong,
        found="; ".join(wrong[:_MOST_FAULTS])
        or f"{place} names owners of what judges; only GitHub knows whether they exist",
        why="who reviews policies, limits, workflows and the toolbox: GitHub ignores placeholders without a word",
        mend=f"sed 's/YOUR-ORG/MY-ORG/g' {_OWNERS_TEMPLATE} >.github/CODEOWNERS   (then edit the teams)"
        if (root / _OWNERS_TEMPLATE).is_file()
        else "write .github/CODEOWNERS: a line `* @MY-ORG/MY-TEAM`, and one for each folder with owners of its own",
    )


def _limits(root: Path, stack: str | None) -> Prerequisite:
    """Each stack's policy config file, by what it says alone."""
    wrong: list[str] = []
    levels: list[str] = []
    for name in (stack,) if stack else stack_names(root):
        try:
            config = read_config(root, name)
        except PolicyError as error:
            wrong.append(str(error))
            continue
        if not config:
            wrong.append(f"{config_file(name)} sets no limit")
        for policy, given in config.items():
            level = given if isinstance(given, str) else given.get("enforcementLevel")
            if level in ("disabled", "advisory"):
                (wrong if policy == "all" else levels).append(f"{config_file(name)}: {policy} is {level}")
    return prerequisite(
        name="policy limits",
        steps=("pull-requests",),
        ok=not wrong,
        found="; ".join([*wrong, *levels][:_MOST_FAULTS]) or "every stack has its limits, and no level is lowered",
        why="a limit that is not set is not judged; a level that is lowered stops nothing",
        mend='write {"hourly-cost-above-ceiling": {"maxUsdPerHour": 40}} to the stack\'s file (docs/policies.md)',
    )


def _tool(name: str, why: str, mend: str) -> Prerequisite:
    path = shutil.which(name)
    return prerequisite(name=name, steps=_LIVE, ok=path is not None, found=path or "not on PATH", why=why, mend=mend)


def version_of(tool: str, *arguments: str) -> str | None:
    """The version that `tool` prints, or None."""
    match = re.search(r"\d+\.\d+(?:\.\d+)?", _output(tool, *arguments) or "")
    return match[0] if match else None


def _output(tool: str, *arguments: str) -> str | None:
    """The output of `tool`, or None if it is not on PATH or does not answer."""
    path = shutil.which(tool)
    if path is None:
        return None
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout


def numbers_of(version: str) -> tuple[int, ...]:
    """The numbers of a version."""
    return tuple(int(part) for part in version.split("."))
