"""`fleet rollout`: upgrades that run on one canary replica first."""

from __future__ import annotations

import json
import re
import shlex
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.bench.errors import BenchmarkError
from fleet.cli import judge
from fleet.cli.documents import say_next, show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.judge import PLACE
from fleet.cli.options import Context, Format, Kubeconfig, OneStack, Profile
from fleet.doctor.packages import require_benchmark_packages
from fleet.report.terminal import Page, stdout_paper

if TYPE_CHECKING:
    from fleet.rollout.judge.verdict import Verdict
    from fleet.rollout.steps import Rollout

rollout = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Upgrade one replica first: plan, start, judge, then promote or abort. Edits the stack file.",
)
rollout.command(short_help="Compare the canary with an old replica: promote, reject or undecided.")(judge.judge)

VerdictFile = Annotated[
    Path | None,
    typer.Option(
        "--verdict",
        metavar="FILE",
        dir_okay=False,
        help="Output of `fleet rollout judge`. Default: this stack's newest in out/rollout.",
    ),
]
ClusterOf = Annotated[
    Path | None,
    typer.Option(
        "--outputs",
        metavar="FILE",
        dir_okay=False,
        help="Output of `pulumi stack output --json --show-secrets`; also checks the cluster.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What the canary serves instead."""

    engine_version: Annotated[str | None, typer.Option(metavar="X.Y.Z", help="vLLM release.")] = None
    image_digest: Annotated[str | None, typer.Option(metavar="sha256:...", help="Digest of the image.")] = None
    revision: Annotated[str | None, typer.Option(metavar="COMMIT", help="Model revision.")] = None
    profile: Profile = None
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any key of rollout.canary, e.g. engine.maxModelLen=8192; null uses vLLM's default. Repeatable.",
        ),
    ] = None

    def declared(self) -> dict[str, Any]:
        """`rollout.canary` of the stack file. Raises CommandError."""
        options = {
            "profile": self.profile,
            "engine.version": self.engine_version,
            "image.tag": self.engine_version and self.image_digest and f"v{self.engine_version}",
            "image.digest": self.image_digest,
            "model.revision": self.revision,
        }
        given: list[tuple[str, Any]] = [(path, value) for path, value in options.items() if value is not None]
        for one in self.set_ or ():
            path, equals, text = one.partition("=")
            if not equals or not all(path.split(".")):
                raise CommandError(f"--set {one}: write KEY=VALUE, such as engine.maxModelLen=8192")
            given.append((path, _value(one, text)))
        canary: dict[str, Any] = {}
        for path, value in given:
            for section in reversed(path.split(".")):
                value = {section: value}
            _merge(canary, value)
        return canary


@with_fields()
def _plan_or_start(context: typer.Context, of: OneStack, version: Version, format_: Format = "text") -> int:
    """Show what a canary would change, what it costs and how long it takes. Writes nothing."""
    from fleet.rollout.planned import outline
    from settings.derived.canary import weights_ending

    steps, name = _open(of)
    change = steps.start(version.declared())
    starts = context.info_name == "start"
    if starts:
        change.write()
    show(outline(change.before, change.after), format_)
    if format_ == "json":
        return CLEAN
    first = shlex.join(["fleet", *("start" if one == "plan" else one for one in sys.argv[1:])])
    if starts:
        created = "weights and pods" if weights_ending(change.after) else "pods"
        _print(
            f"{change.path.name} now declares the canary. `pulumi up` creates its {created} beside the servers and restarts no "
            "server. User requests do not reach the canary. Commit the file first: a failed promotion is reverted to this commit."
        )
    say_next(
        *(() if starts else (first,)),
        f"fleet preview --stack {name} --against HEAD",
        f"git commit {change.path.name}",
        f"pulumi up --stack {name}",
        f"fleet rollout judge --stack {name}",
        f"fleet rollout promote --stack {name}, or fleet rollout abort --stack {name}",
    )
    return CLEAN


rollout.command("plan", short_help="Show what a canary would change, cost and take. Writes nothing.")(_plan_or_start)
rollout.command(
    "start",
    short_help="Declare the canary in the stack file, and show its plan.",
    help="Declare the canary in the stack file, as vllm-fleet:rollout, and show what it changes, costs and takes.",
)(_plan_or_start)


@rollout.command(short_help="Give the servers the canary's version; with --finish, remove the canary.")
@with_fields()
def promote(
    of: OneStack,
    verdict: VerdictFile = None,
    without_verdict: Annotated[
        str | None,
        typer.Option(
            "--without-verdict",
            metavar="REASON",
            help="Promote without a verdict; the reason goes into the stack file.",
        ),
    ] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="After `pulumi up`: remove the canary from the stack file.")
    ] = False,
) -> int:
    """Give the servers in the stack file the canary's version. The canary stays until --finish.

    Needs a verdict `promote` for exactly this canary and these servers.
    """
    steps, name = _open(of)
    if finish:
        steps.finish().write()
        _print("The canary is removed from the stack file. `pulumi up` deletes its pods and lowers the GPU quota.")
        say_next(f"pulumi up --stack {name}", f"fleet verify --stack {name}")
        return CLEAN
    from settings.derived.canary import weights_ending

    why = f"without a verdict: {without_verdict}"
    if without_verdict is None:
        file = verdict or _newest(name)
        judged = _read(file)
        if judged is None:
            raise CommandError(
                f"no verdict at {_place(file, name)}; run `fleet rollout judge --stack {name}`, pass --verdict FILE, or promote "
                "with --without-verdict REASON"
            )
        steps.verdict(judged)
        _print(f"{file}: {judged.headline}")
        why = judged.headline[:500]
    change = steps.promote(why)
    change.write()
    servers = change.after.replicas
    over = " They reuse the canary's weights without another download." if weights_ending(change.before) else ""
    alone = " With one server, requests fail until the new one is ready." if servers == 1 else ""
    _print(
        f"{change.path.name}: the servers now have the canary's version. `pulumi up` replaces {servers}, one at a time; the canary "
        f"stays.{over} If a new server does not become ready, the update stops: revert the stack file to the commit "
        f"that declares the canary (`git checkout {change.path.name}`), and run `pulumi up` again.{alone}"
    )
    say_next(
        f"fleet preview --stack {name} --against HEAD",
        f"pulumi up --stack {name}",
        f"fleet verify --stack {name}",
        f"fleet rollout promote --finish --stack {name}",
    )
    return CLEAN


@rollout.command(short_help="Remove the canary from the stack file.")
@with_fields()
def abort(of: OneStack, verdict: VerdictFile = None) -> int:
    """Remove the canary from the stack file. The servers are unaffected."""
    steps, name = _open(of)
    change = steps.abort()
    file = verdict or _newest(name)
    judged = _verdict_on(steps, file)
    change.write()
    if judged is not None:
        _print(f"{file}: {judged['headline']}")
    _print("`pulumi up` deletes the canary's pods and weights. The servers are unaffected.")
    say_next(f"pulumi up --stack {name}")
    return CLEAN


@rollout.command(short_help="Show the declared canary, its verdict and its pods.")
@with_fields()
def status(
    of: OneStack,
    verdict: VerdictFile = None,
    outputs: ClusterOf = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    format_: Format = "text",
) -> int:
    """Show the declared canary and its verdict; with --outputs, --kubeconfig or --context, also its pods.

    Exits with 1 if a pod of the canary is not ready.
    """
    from fleet.rollout.planned import difference_rows

    steps, name = _open(of)
    settings = steps.settings
    document: dict[str, Any] = {"stack": name, "canary": None}
    code = CLEAN
    if settings.as_canary is not None:
        document |= {"canary": settings.as_canary.server.name, "replicas": settings.as_canary.replicas}
        document |= {"differences": difference_rows(settings), "promoted": settings.rollout.promoted}
        document["verdict"] = _verdict_on(steps, verdict or _newest(name))
        if outputs is not None or kubeconfig is not None or context is not None:
            document["pods"] = _pods(name, steps, outputs, kubeconfig, context)
            ready = sum(one["ready"] for one in document["pods"])
            code = CLEAN if ready == settings.as_canary.replicas else FINDINGS
    if format_ == "json":
        _print_json(document)
    else:
        _print_status(name, steps, document, _place(verdict, name))
    return code


def _print_status(name: str, steps: Rollout, document: dict[str, Any], place: str) -> None:
    from fleet.rollout.planned import differences

    if document["canary"] is None:
        _print(f"Stack {name} has no canary.")
        return
    if document["promoted"] is not None:
        _print(f"Promoted: {document['promoted']}")
        say_next(f"pulumi up --stack {name}", f"fleet rollout promote --finish --stack {name}")
    else:
        _print(f"Declared: {'; '.join(differences(steps.settings)) or 'no difference from the servers'}")
    verdict = document["verdict"]
    if verdict is None:
        _print(f"No verdict at {place}.")
    else:
        _print(f"{verdict['file']}: {verdict['headline']}")
    if "pods" not in document:
        _print("Pods not checked: pass --outputs, --kubeconfig or --context.")
        return
    for pod in document["pods"]:
        _print(f"{pod['name']}: {'ready' if pod['ready'] else pod['whyNotReady']}")
    _print(f"{sum(one['ready'] for one in document['pods'])} of {document['replicas']} ready.")


def _verdict_on(steps: Rollout, file: Path | None) -> dict[str, Any] | None:
    """The stored verdict, and whether it promotes the declared canary."""
    from settings.problems import SettingsError

    try:
        judged = _read(file)
        if judged is None:
            return None
        found = {"file": str(file), "verdict": judged.verdict, "headline": judged.headline, "applies": True}
        steps.verdict(judged)
    except (BenchmarkError, CommandError) as error:
        return {"file": str(file), "verdict": None, "headline": str(error), "applies": False}
    except SettingsError as error:
        why = f"does not promote this canary: {error.problems[0].why}"
        return {**found, "headline": why, "applies": False}
    return found


def _pods(
    name: str, steps: Rollout, outputs: Path | None, kubeconfig: Path | None, context: str | None
) -> list[dict[str, Any]]:
    from fleet.clients import stack_outputs
    from fleet.clients.kubectl import Kubectl
    from fleet.verify.cluster import read_pods

    canary = steps.settings.as_canary
    assert canary is not None
    with ExitStack() as stack:
        file = kubeconfig
        if outputs is not None and file is None and context is None:
            file = stack.enter_context(stack_outputs.read(name, steps.path.parent, outputs).kubeconfig_file())
        pods = read_pods(Kubectl(namespace=canary.namespace, kubeconfig=file, context=context), canary)
    return [
        {"name": pod.name, "ready": pod.ready, "whyNotReady": None if pod.ready else pod.why_not_ready} for pod in pods
    ]


def _open(of: OneStack) -> tuple[Rollout, str]:
    from fleet.rollout.steps import Rollout

    folder, name = of.find()
    return Rollout(folder, name), name


def _merge(into: dict[str, Any], more: dict[str, Any], path: str = "") -> None:
    """Raises CommandError if two options give different values for one key."""
    for name, value in more.items():
        where = f"{path}{name}"
        if name not in into:
            into[name] = value
        elif isinstance(into[name], dict) and isinstance(value, dict):
            _merge(into[name], value, f"{where}.")
        elif into[name] != value:
            given = " and as ".join(json.dumps(one) for one in (into[name], value))
            raise CommandError(f"{where} is given as {given}; omit one")


def _value(option: str, text: str) -> Any:
    def number(digits: str) -> float:
        """Raises CommandError for a number out of a stack file's range."""
        found = float(digits) if {*digits} - {*"-0123456789"} else int(digits)
        if not -(2**53) <= found <= 2**53:
            raise CommandError(f"--set {option}: {digits} is out of range for a stack file")
        return found

    try:
        return json.loads(text, parse_constant=number, parse_float=number, parse_int=number)
    except ValueError:
        return text


def _newest(stack: str) -> Path | None:
    """The stack's newest verdict in `fleet rollout judge`'s default folder."""
    from fleet.bench.folder import VERDICT_FILE

    own = re.compile(rf"{re.escape(stack)}-[0-9]{{8}}-[0-9]{{6}}")
    found = [one for one in PLACE.glob(f"*/{VERDICT_FILE}") if own.fullmatch(one.parent.name)]
    return max(found, default=None)


def _place(file: Path | None, stack: str) -> str:
    return str(file or PLACE / f"{stack}-TIME")


def _read(file: Path | None) -> Verdict | None:
    if file is None or not file.exists():
        return None
    require_benchmark_packages()
    from fleet.rollout.judge.judging import read

    return read(file)


def _print(text: str) -> None:
    page = Page(stdout_paper())
    page.prose(text, indent=0)
    page.print()


def _print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
