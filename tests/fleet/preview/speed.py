"""How fast a preview is: a whole process against a bare interpreter that only imports the SDK the program needs.

Everything is a ratio, measured in turns on the same machine, so the numbers mean the same everywhere. Processor time with all
children, because other work on the machine hardly changes it; only what the pack adds is by the clock, since it runs beside.
Prints them and exits with 1 when one is over its limit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FLEET = Path(sys.executable).with_name("fleet")
STACK = "spot"
GROWN = 1000
"""Replicas of the grown stack; the record run has twelve."""
GROWTH = {
    "replicas: 12": f"replicas: {GROWN}",
    "throughputMibps: 4800": "throughputMibps: 96000",
    # One pod of clients brings at most 25,000 requests.
    "vllm-fleet:benchmark:": "vllm-fleet:benchmark:\n    concurrency: [20]",
}
"""What changes in the stack file; a thousand readers need a faster volume."""

ROUNDS = 7
"""Runs of each command; the median counts."""
ATTEMPTS = 3
"""Measurements before it counts as too slow."""

SDK_IMPORT = """
import pulumi
from pulumi_gcp import compute, container
compute.Network; container.Cluster
import pulumi_kubernetes as k8s
k8s.core.v1.ConfigMap; k8s.apps.v1.Deployment
"""
"""What any program of this size pays before its first line, without what fleet/preview/record/quick_sdk.py does."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One process, from start to end."""

    seconds: float
    """By the clock."""
    cpu_seconds: float
    """User and system time, with all children."""
    rss_mib: float


@dataclass(frozen=True, slots=True)
class Check:
    """One figure and its limit."""

    name: str
    value: float
    limit: float
    unit: str

    @property
    def passed(self) -> bool:
        """Whether the figure is within its limit."""
        return self.value <= self.limit

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "OVER"
        return f"{self.name:<58} {self.value:>8.3f} {self.unit:<6} limit {self.limit:>8.3f}  {verdict}"


def measure(command: Sequence[str], cwd: Path) -> Sample:
    """Run a command to its end. Raises SystemExit when it fails: a failed run has no speed."""
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            said = errors.read().decode(errors="replace")
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{said}")
    per_mib = 2**20 if sys.platform == "darwin" else 2**10  # macOS counts bytes, Linux kibibytes
    return Sample(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / per_mib)


@contextlib.contextmanager
def grown_project() -> Iterator[Path]:
    """A copy of the project whose stack has a thousand replicas."""
    with tempfile.TemporaryDirectory(prefix="preview-speed-") as folder:
        root = Path(folder)
        for entry in ROOT.iterdir():
            if not entry.name.startswith(".") and entry.name != f"Pulumi.{STACK}.yaml":
                # Files are copied: a project file that is a link out of the project is refused.
                (root / entry.name).symlink_to(entry) if entry.is_dir() else shutil.copy(entry, root / entry.name)
        text = (ROOT / f"Pulumi.{STACK}.yaml").read_text()
        for old, new in GROWTH.items():
            if old not in text:
                raise SystemExit(f"Pulumi.{STACK}.yaml no longer says `{old}`; teach tests/fleet/preview/speed.py")
            text = text.replace(old, new)
        (root / f"Pulumi.{STACK}.yaml").write_text(text)
        yield root


def run() -> dict[str, list[Sample]]:
    """Measure everything in turns, so that a busy moment of the machine hits all alike."""
    python = sys.executable
    preview = [str(FLEET), "preview", "--stack", STACK, "--no-policy"]
    with grown_project() as grown:
        commands: dict[str, tuple[list[str], Path]] = {
            "import": ([python, "-c", SDK_IMPORT], ROOT),
            "preview": (preview, ROOT),
            "judged": (preview[:-1], ROOT),
            "grown": (preview, grown),
            "nothing": ([python, "-c", "pass"], ROOT),
            "help": ([str(FLEET), "--help"], ROOT),
            "version": ([str(FLEET), "--version"], ROOT),
        }
        samples: dict[str, list[Sample]] = {name: [] for name in commands}
        for command, cwd in commands.values():
            measure(command, cwd)  # once for the caches of the disk
        for _ in range(ROUNDS):
            for name, (command, cwd) in commands.items():
                samples[name].append(measure(command, cwd))
    return samples


def checks(samples: dict[str, list[Sample]]) -> list[Check]:
    """The figures that have a limit."""
    cpu = {name: statistics.median(one.cpu_seconds for one in several) for name, several in samples.items()}
    best = {name: min(one.seconds for one in several) for name, several in samples.items()}
    rss_mib = max(one.rss_mib for name in ("preview", "judged", "grown") for one in samples[name])
    return [
        Check(f"preview of {STACK} / bare SDK import", cpu["preview"] / cpu["import"], 0.95, "x"),
        # The best runs: pack and program share the cores, so whatever else runs slows this one twice.
        Check("with the policy pack / without, best runs", best["judged"] / best["preview"], 1.5, "x"),
        # 0.99 to 1.12 measured.
        Check(f"{GROWN} replicas / 12 replicas", cpu["grown"] / cpu["preview"], 1.25, "x"),
        Check("largest resident memory of a preview", rss_mib, 200, "MiB"),
        *(
            Check(
                f"fleet --{name}, above a bare interpreter / bare SDK import",
                (cpu[name] - cpu["nothing"]) / cpu["import"],
                0.09,
                "x",
            )
            for name in ("help", "version")
        ),
    ]


def best_of(earlier: Mapping[str, Check], found: Iterable[Check]) -> dict[str, Check]:
    """Each figure as it was best so far: what else runs on a machine makes a figure worse, and hardly ever better."""
    return {check.name: min(check, earlier.get(check.name, check), key=lambda one: one.value) for check in found}


def say(line: str = "") -> None:
    """A line of the report."""
    sys.stdout.write(line + "\n")


def main() -> int:
    """Measure, print, judge."""
    best: dict[str, Check] = {}
    for attempt in range(1, ATTEMPTS + 1):
        samples = run()
        for name, several in samples.items():
            clock, cpu = ([getattr(one, kind) for one in several] for kind in ("seconds", "cpu_seconds"))
            say(
                f"{name:<10} median {statistics.median(clock):6.3f} s by the clock, {statistics.median(cpu):6.3f} s of processor time"
            )
        say()
        found = checks(samples)
        for check in found:
            say(str(check))
        best = best_of(best, found)
        over = [check.name for check in best.values() if not check.passed]
        if not over:
            return 0
        if attempt < ATTEMPTS:
            say(f"\nOver its limit: {'; '.join(over)}. Once more, in case something else was running.\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
