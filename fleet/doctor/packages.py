"""Optional modules, by the extra that installs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from facts.user_error import UserError
from fleet import IS_INSTALLED

FOR_BENCHMARKS = frozenset(
    {"aiohttp", "google", "matplotlib", "numpy", "orjson", "prometheus_client", "requests", "tokenizers"}
)
"""Top-level modules of the extra benchmark."""
FOR_REHEARSALS = frozenset({"cryptography", "googleapiclient", "kubernetes", "trustme", "urllib3"})
"""Modules of the extra rehearsal."""
_MODULES = {"benchmark": FOR_BENCHMARKS, "rehearsal": FOR_REHEARSALS}
LAB_INSTALL = "python -m pip install vllm-fleet-lab"
"""The command that installs the lab beside an installed toolbox; a checkout has it."""
_TARGETS = {"benchmark": "setup-benchmark", "rehearsal": "setup-rehearsal", "fleet": "setup"}


def how_to_install(module: str, arguments: Sequence[str]) -> str:
    """What to type for a missing module: the one set that has it, or the set of the command in `fleet`'s arguments.

    A rehearsal and a benchmark share modules; each is asked for its own set, which is all that it needs.
    """
    top = module.partition(".")[0]
    sets = [name for name, modules in _MODULES.items() if top in modules] or ["fleet"]
    if len(sets) > 1:
        sets = ["rehearsal" if arguments[:1] == ["rehearse"] else "benchmark"]
    return _install(sets[0])


def require_benchmark_packages() -> None:
    """What merges and draws is there. Raises UserError for the first that is not, which its import would tell an hour later."""
    # Of `google` something is always there: protobuf.
    _require(
        "benchmark", ("google.auth", "google.cloud", "google.cloud.storage", *sorted(FOR_BENCHMARKS - {"tokenizers"}))
    )


def require_bucket_packages() -> None:
    """What reads and writes a bucket is there. Raises UserError."""
    _require("benchmark", ("google.auth", "google.cloud", "google.cloud.storage", "numpy", "requests"))


def require_google_packages() -> None:
    """What asks Google's APIs is there. Raises UserError."""
    _require("benchmark", ("google.auth", "google.cloud", "google.cloud.storage", "requests"))


def require_verify_packages() -> None:
    """What asks a server is there. Raises UserError."""
    _require("benchmark", ("aiohttp",))


def require_batch_packages() -> None:
    """What counts tokens is there. Raises UserError."""
    _require("benchmark", ("numpy", "requests", "tokenizers"))


def require_rehearsal_packages() -> None:
    """What starts, asks and loads a control plane is there. Raises UserError: a build takes minutes."""
    _require("rehearsal", sorted(FOR_REHEARSALS))


def _install(which: str) -> str:
    return pip_install(which) if IS_INSTALLED else f"{install_command(which)} (or: {pip_install(which)})"


def _require(which: str, names: Iterable[str]) -> None:
    for name in names:
        if find_spec(name) is None:
            raise UserError(f"{name} is not installed; run: {_install(which)}")


def install_command(which: str) -> str:
    """The command that installs a set."""
    return pip_install(which) if IS_INSTALLED else f"make {_TARGETS[which]}"


def pip_install(which: str) -> str:
    """The same without make, whose stamps trust that nothing was removed since."""
    extra = "" if which == "fleet" else f"[{which}]"
    what = f"'vllm-fleet{extra}'" if IS_INSTALLED else f"-c constraints.txt --editable '.{extra}'"
    return f"python -m pip install {what}"
