"""`fleet rollout judge`: compares a canary with the servers and writes a verdict. `fleet rollout answers`: one server's answers."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from facts.files import write_whole
from fleet.bench.run.wanted import Changes, require_the_same_stack, settings_for
from fleet.cli.bench.as_declared import require_as_declared
from fleet.cli.bench.run import agree, require_writable
from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.interactive import terminal
from fleet.cli.options import Format, Live, OneStack
from fleet.cli.verify import api_key
from fleet.doctor.packages import require_benchmark_packages
from fleet.report.outline import Next
from fleet.rollout.effort import PASSES, REPEATS

if TYPE_CHECKING:
    from fleet.rollout.judge.verdict import Limits, Verdict
    from settings.stack import Settings

PLACE = Path("out", "rollout")
"""Default folder of results and verdicts; each in STACK-TIME."""


@with_fields
def judge(
    of: OneStack,
    live: Live,
    results: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--results", metavar="OLD_DIR CANARY_DIR", help="Judge stored results instead of measuring."),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, max=20, help="Runs of each load in each of two passes.")
    ] = REPEATS,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", metavar="NAME=PERCENT", help="Allowed loss, e.g. throughput=2, ttft=10, tpot=5. Repeatable."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            file_okay=False,
            help="Folder for results and verdict. Default: out/rollout/STACK-TIME, or beside --results.",
        ),
    ] = None,
    format_: Format = "text",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Confirm the cost without a prompt.")] = False,
) -> int:
    """Benchmark the canary and one old replica, compare their answers to the same prompts, and write a verdict.

    Exits with 0 for promote, with 1 for reject or undecided (see --format json). `fleet rollout promote` reads
    rollout-verdict.json.
    """
    require_benchmark_packages()
    from fleet.bench.folder import VERDICT_FILE
    from fleet.rollout.judge import verdict
    from fleet.rollout.judge.judging import judge_folders, outline
    from fleet.rollout.steps import Rollout

    folder, name = of.find()
    limits = _limits(limit or [])
    if results is None:
        place = out or PLACE / f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
        _measure(folder, name, place, repeats, live, yes=yes)
        old, canary = place / "old", place / "canary"
    else:
        old, canary = results
        settings = Rollout(folder, name).settings
        place = out or canary.resolve().parent
    file = place / VERDICT_FILE
    found = judge_folders(old, canary, limits, file)
    if results is not None and (others := _others(settings, found)):
        sys.stderr.write(
            f"These results do not match stack {name}: {' and '.join(others)} in its file would serve something else. "
            "`fleet rollout promote` will refuse the verdict.\n"
        )
    place.mkdir(parents=True, exist_ok=True)
    write_whole(file, verdict.as_text(found).encode())
    if format_ == "json":
        sys.stdout.write(verdict.as_text(found))
    else:
        promote = f"fleet rollout promote --stack {name} --verdict {shlex.quote(str(file))}"
        show(outline(found, Next(promote if found.verdict == "promote" else str(file))), "text")
    return CLEAN if found.verdict == "promote" else FINDINGS


@with_fields
def answers(
    of: OneStack,
    live: Live,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="DIR", file_okay=False, help="Folder for answers.json, made if missing."),
    ],
) -> int:
    """Ask one replica the prompts of `fleet rollout judge` at temperature 0, and keep its answers.

    With a measurement in a folder of DIR, `fleet rollout judge --results` compares DIR with another release's. It needs no canary.
    """
    require_benchmark_packages()
    from fleet.clients import stack_outputs
    from fleet.jobs.session import cluster_of
    from fleet.rollout.judge import measuring

    folder, name = of.find()
    require_writable(out)
    settings = settings_for(folder, name, Changes())
    key = api_key(settings)
    told = stack_outputs.read(name, folder, live.outputs)
    require_the_same_stack(settings, told)
    with cluster_of(told, settings, live.kubeconfig, live.context) as kubectl:
        require_as_declared(kubectl, settings)
        file = measuring.keep_answers(kubectl, settings, out, key)
    sys.stdout.write(f"{file}\n")
    return CLEAN


def _others(settings: Settings, found: Verdict) -> list[str]:
    """The sides that differ from the stack file."""
    from fleet.rollout.judge.verdict import declaration_of
    from settings.derived.measurement import measurement

    sides = (("the servers", settings, found.old), ("the canary", settings.as_canary, found.canary))
    return [
        side
        for side, declared, asked in sides
        if declared is None or declaration_of(measurement(declared).run) != declaration_of(asked[0].model_dump())
    ]


def _limits(given: list[str]) -> Limits:
    from fleet.rollout.judge.verdict import Limits

    values: dict[str, float] = {}
    for text in given:
        key, _, number = text.partition("=")
        key = key.replace("-", "_")
        try:
            values[key] = float(number) / 100
        except ValueError:
            values[key] = -1.0
        if key not in Limits.model_fields or not 0 <= values[key] <= 1:
            names = ", ".join(Limits.model_fields).replace("_", "-")
            raise CommandError(f"--limit {text}: must be NAME=PERCENT, 0 to 100, e.g. throughput=2; names: {names}")
    return Limits(**values)


def _measure(
    root: Path,
    stack: str,
    place: Path,
    repeats: int,
    live: Live,
    *,
    yes: bool,
) -> None:
    from fleet.bench.run.fetching import require_new
    from fleet.bench.run.launch import require_prepared
    from fleet.bench.run.session import google_of, require_bucket
    from fleet.clients import stack_outputs
    from fleet.jobs.display import shown
    from fleet.jobs.session import cluster_of
    from fleet.plan.benchmark_price import price_of
    from fleet.rollout.judge import measuring

    require_new(place)
    require_writable(place)
    settings = settings_for(root, stack, Changes(repeats=repeats))
    key = api_key(settings)
    sides = measuring.sides_of(settings)
    told = stack_outputs.read(stack, root, live.outputs)
    require_the_same_stack(settings, told)
    google = google_of(told)
    require_bucket(google.bucket)
    with cluster_of(told, settings, live.kubeconfig, live.context) as kubectl:
        require_prepared(kubectl, settings)
        for side in sides.values():
            require_as_declared(kubectl, side)
        found = measuring.targets(kubectl, settings)
        sys.stdout.write(f"{2 * PASSES} measurements like this, each of one replica:\n")
        agree(price_of(settings), settings, yes=yes)
        is_live, width = terminal()
        with shown(sys.stdout, live=is_live, width=width) as display:
            measuring.ask(kubectl, found, place, key)
            measuring.measure(kubectl, google.bucket, settings, told, found, place, display)
