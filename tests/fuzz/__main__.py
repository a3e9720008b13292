"""`make fuzz`: every target for its share of the time, in processes of their own; each defect as a file and the command that repeats it."""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.search import Defect, Found, judge, search
from tests.fuzz.targets import TARGETS, load

PLACE = Path("out", "fuzz")
_HANGS_SECONDS = 300
"""Without a new input. Assumed: Python code ends long before by its limit of processor time."""
_ENOUGH = 500
"""Inputs of which one at least is sound. Measured: each target accepts 5 to 30 of 100."""
_MEMORY = 8 * 2**30


def main() -> int:
    """0: no defect."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of all targets together")
    parser.add_argument("--inputs", type=int, default=None, help="of each target; with a seed the same ones every time")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--replay", type=Path, metavar="FILE")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.replay is not None:
        return _replay(given.replay)
    if given.child is not None:
        _child(given.target[0], given.seed, given.seconds, given.inputs, given.child)
        return 0
    seed = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    return _run(list(dict.fromkeys(given.target or TARGETS)), seed, given.seconds, given.inputs)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _run(targets: list[str], seed: int, seconds: float, most: int | None) -> int:
    jobs = min(len(targets), os.cpu_count() or 1)
    share = seconds * jobs / len(targets)
    _say(f"fuzz: seed {seed}, {seconds:g} s, {len(targets)} targets, {jobs} at once; again: make fuzz SEED={seed}")
    PLACE.mkdir(parents=True, exist_ok=True)
    for old in PLACE.glob("*.json"):
        old.unlink()
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        waiting, running = list(targets), {}
        while waiting or running:
            while waiting and len(running) < jobs:
                name = waiting.pop(0)
                running[name] = _start(name, seed, share, most, Path(folder))
            for name, process in list(running.items()):
                if process.poll() is None and not _hangs(Path(folder), name):
                    continue
                found = _ended(name, running.pop(name), Path(folder))
                count += len(found.defects)
                _tell(name, found)
            time.sleep(0.1)
    _say(f"fuzz: {count or 'no'} defect{'s' * (count != 1)} (seed {seed})")
    return 1 if count else 0


def _start(name: str, seed: int, seconds: float, most: int | None, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.fuzz", "--target", name, "--seed", str(seed), "--seconds", str(seconds)]
    command += [] if most is None else ["--inputs", str(most)]
    (folder / f"{name}.trying").touch()
    with (folder / f"{name}.err").open("wb") as errors:
        return subprocess.Popen(
            [*command, "--child", str(folder / name)],
            # What a killed process leaves goes, too; and a set has one order.
            env={**os.environ, "TMPDIR": str(folder), "PYTHONHASHSEED": "0"},
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )


def _hangs(folder: Path, name: str) -> bool:
    return time.time() - (folder / f"{name}.trying").stat().st_mtime > _HANGS_SECONDS


def _ended(name: str, process: subprocess.Popen[bytes], folder: Path) -> Found:
    """What a process found, and what ended it before its time."""
    file = folder / f"{name}.found"
    content = json.loads(file.read_text()) if file.is_file() else {"tried": 0, "accepted": 0, "defects": {}}
    found = Found(
        content["tried"], content["accepted"], {key: Defect(**one) for key, one in content["defects"].items()}
    )
    if process.poll() != 0:
        hung = process.poll() is None
        process.kill()
        process.wait()
        what = "it hangs" if hung else f"the process ended with {process.returncode}"
        errors = (folder / f"{name}.err").read_text(errors="replace")
        _say("".join(f"    {line}\n" for line in errors.splitlines()[-20:]).rstrip())
        found.defects[what] = Defect(what, (folder / f"{name}.trying").read_text(), errors[-4_000:])
    if found.tried == 0 or (found.tried >= _ENOUGH and found.accepted == 0):
        what = "no input was accepted, so nothing was tried" if found.tried else "no input was tried in its time"
        found.defects[what] = Defect(what, (folder / f"{name}.trying").read_text(), "")
    return found


def _tell(name: str, found: Found) -> None:
    share = f"{100 * found.accepted / found.tried:.0f} %" if found.tried else "none"
    _say(f"  {name:<16}{found.tried:>8,} inputs, {share} accepted, {len(found.defects) or 'no'} defects")
    for number, defect in enumerate(found.defects.values(), start=1):
        file = PLACE / f"{name}-{number}.json"
        file.write_text(defect.input)
        _say(f"    {defect.name}\n      smallest input: {file}; again: make fuzz REPLAY={shlex.quote(str(file))}")


def _child(name: str, seed: int, seconds: float, most: int | None, place: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    target = load(name)

    def tell(found: Found) -> None:
        file = place.with_suffix(".new")
        file.write_text(json.dumps(asdict(found)))
        file.replace(place.with_suffix(".found"))

    search(target, seed, seconds, place.with_suffix(".trying"), tell, most)


def _replay(file: Path) -> int:
    """Judge one input again; its defect is raised, with its traceback."""
    name = file.name.rpartition("-")[0]
    with tempfile.TemporaryDirectory() as tempfile.tempdir:
        accepted = judge(load(name), json.loads(file.read_text()))
    _say(f"{file}: {name} holds; the input is {'accepted' if accepted else 'refused'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
