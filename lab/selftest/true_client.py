"""Check that a Python has vLLM's own client."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from fleet.bench.errors import BenchmarkError

ANSWER_SECONDS: Final = 60.0
"""Assumed. Measured: a tenth of a second, for vLLM itself is not imported."""
_QUESTION: Final = (
    "import importlib.util, json, os, sys\n"
    "vllm = importlib.util.find_spec('vllm')\n"
    "places = list(vllm.submodule_search_locations or ()) if vllm else []\n"
    "serve = any(os.path.isfile(os.path.join(place, 'benchmarks', 'serve.py')) for place in places)\n"
    "print(json.dumps({'python': sys.version.split()[0], 'vllm': places, 'serve': serve}))\n"
)


def require_vllm(python: Path) -> None:
    """Raise BenchmarkError for a Python without vLLM's client."""
    told = _asked(python)
    if told["serve"]:
        return
    found = (
        f"vLLM in {told['vllm'][0]}, which has no benchmarks/serve.py"
        if told["vllm"]
        else f"Python {told['python']} without vLLM"
    )
    raise _wrong(python, f"this is {found}")


def _asked(python: Path) -> dict[str, Any]:
    # As in a pod: from another folder, without this user's Python path.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run(
            [str(python), "-c", _QUESTION],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except OSError as error:
        raise _wrong(python, f"it cannot be started ({error.strerror})") from None
    except subprocess.TimeoutExpired:
        raise _wrong(python, f"no answer within {ANSWER_SECONDS:.0f} s") from None
    try:
        told = json.loads(done.stdout)
        if isinstance(told, dict):
            return told
    except ValueError:
        pass
    said = " ".join((done.stderr or done.stdout).split())[-200:]
    raise _wrong(python, f"it is not a Python (exit code {done.returncode}{f': {said}' if said else ''})")


def _wrong(python: Path, found: str) -> BenchmarkError:
    return BenchmarkError(
        f"--vllm {python}: {found}; pass the Python of an environment with vLLM 0.18.1, for example .venv-vllm/bin/python "
        "(created by `make bench-vllm`), or omit --vllm for the small client"
    )
