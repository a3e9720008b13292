"""`fleet rollout`: an upgrade that one replica tries first, from its plan to its end."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli import judge
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.options import Context, Kubeconfig, Root, Stack

if TYPE_CHECKING:
    from fleet.rollout.judge.verdict import Verdict
    from fleet.rollout.steps import Rollout

rollout = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Upgrade one replica first: plan it, start it, judge it, promote or abort it. Edits the stack file.",
)
rollout.command(short_help="Measure it against an old replica: promote, reject or undecided.")(judge.judge)

VerdictFile = Annotated[
    Path | None,
    typer.Option(
        "--verdict",
        metavar="FILE",
        dir_okay=False,
        help="What `fleet rollout judge` wrote. Default: the newest of this stack below out/rollout.",
        show_default=False,
    ),
]
ClusterOf = Annotated[
    Path | None,
    typer.Option(
        "--outputs",
        metavar="FILE",
        dir_okay=False,
        help="What `pulumi stack output --json --show-secrets` printed: look at that cluster. Default: at none.",
        show_default=False,
    ),
]


def _plan_or_start(
    context: typer.Context,
    stack: Stack = None,
    engine_version: Annotated[
        str | None, typer.Option("--engine-version", metavar="X.Y.Z", help="vLLM's release.", show_default=False)
    ] = None,
    image_digest: Annotated[
        str | None, typer.Option("--image-digest", metavar="sha256:...", help="Of its image.", show_default=False)
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="COMMIT", help="Of the model.", show_default=False)
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="Engine flags.", show_default=False)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any key of rollout.canary, e.g. engine.maxModelLen=8192; null leaves it to vLLM. Repeatable.",
            show_default=False,
        ),
    ] = None,
    root: Root = None,
) -> int:
    """Say what a canary would change, cost and take; `start` also declares it in the stack file: vllm-fleet:rollout."""
    from fleet.report.terminal import Page, stdout_paper
    from fleet.rollout.planned import benchmark_missing, write_plan
    from settings.derived.canary import weights_ending

    steps, name = _open(root, stack)
    change = steps.start(_declared(engine_version, image_digest, revision, profile, set_ or ()))
    starts = context.info_name == "start"
    if starts:
        change.write()
    page = Page(stdout_paper())
    if missing := benchmark_missing(change.after):
        page.prose(missing, indent=0)
    write_plan(page, change.before, change.after)
    page.print()
    first = shlex.join(["fleet", *("start" if one == "plan" else one for one in sys.argv[1:])])
    if starts:
        own = "its own weights first, then its pods" if weights_ending(change.after) else "its pods alone"
        _tell(
            f"{change.path.name} declares the canary. `pulumi up` adds it beside the servers and restarts none of them: {own}. No "
            "request of a user reaches it. Commit the file before that: a promotion that fails is taken back to this commit."
        )
    _next(
        *(() if starts else (first,)),
        f"fleet preview --stack {name} --against HEAD",
        f"git commit {change.path.name}",
        f"pulumi up --stack {name}",
        f"fleet rollout judge --stack {name}",
        f"fleet rollout promote --stack {name}, or fleet rollout abort --stack {name}",
    )
    return CLEAN


rollout.command("plan", short_help="Say what a canary would change, cost and take. Writes nothing.")(_plan_or_start)
rollout.command("start", short_help="The same, and declare the canary in the stack file.")(_plan_or_start)


@rollout.command(short_help="Give the servers what the canary runs; with --finish, take the canary away.")
def promote(
    stack: Stack = None,
    verdict: VerdictFile = None,
    without_verdict: Annotated[
        str | None,
        typer.Option("--without-verdict", metavar="REASON", help="Written into the stack file.", show_default=False),
    ] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="After `pulumi up`: remove the canary from the stack file.")
    ] = False,
    root: Root = None,
) -> int:
    """Give the servers in the stack file what the canary runs, after a verdict `promote` of exactly this canary beside exactly
    these servers. The canary stays until --finish.
    """
    steps, name = _open(root, stack)
    if finish:
        steps.finish().write()
        _tell(
            "The stack file has no canary any more. `pulumi up` lowers the GPU quota to the servers' and ends its pods."
        )
        _next(f"pulumi up --stack {name}", f"fleet verify --stack {name}")
        return CLEAN
    from settings.derived.canary import weights_ending

    why = f"without a verdict: {without_verdict}"
    if without_verdict is None:
        file = verdict or _newest(name)
        judged = _read(file)
        if judged is None:
            raise CommandError(
                f"there is no verdict at {_place(file, name)}: `fleet rollout judge --stack {name}` writes one, and --verdict FILE names "
                "one that is elsewhere; --without-verdict REASON goes on without, and the reason is written into the stack file"
            )
        steps.verdict(judged)
        _tell(f"{file}: {judged.headline}")
        why = judged.headline[:500]
    change = steps.promote(why)
    change.write()
    servers = change.after.replicas
    over = " The canary's weights go over to them without another download." if weights_ending(change.before) else ""
    alone = " With one server, nobody is answered between its end and the next one's start." if servers == 1 else ""
    _tell(
        f"{change.path.name}: the servers are what the canary is. `pulumi up` replaces them one at a time, {servers} in all; the canary "
        f"stays beside them.{over} Should a new server not become ready, the update stops there: take the stack file back to the commit "
        f"that declares the canary (`git checkout {change.path.name}`), and run `pulumi up` again.{alone}"
    )
    _next(
        f"fleet preview --stack {name} --against HEAD",
        f"pulumi up --stack {name}",
        f"fleet verify --stack {name}",
        f"fleet rollout promote --finish --stack {name}",
    )
    return CLEAN


@rollout.command(short_help="Remove the canary from the stack file.")
def abort(stack: Stack = None, verdict: VerdictFile = None, root: Root = None) -> int:
    """Remove the canary from the stack file. The servers were never touched."""
    steps, name = _open(root, stack)
    change = steps.abort()
    change.write()
    file = verdict or _newest(name)
    if (judged := _read_if_possible(file)) is not None:
        _tell(f"{file}: {judged.headline}")
    _tell("`pulumi up` removes the canary's pods and its own weights, and touches no server.")
    _next(f"pulumi up --stack {name}")
    return CLEAN


@rollout.command(short_help="Say what is declared, judged and running.")
def status(
    stack: Stack = None,
    verdict: VerdictFile = None,
    outputs: ClusterOf = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    root: Root = None,
) -> int:
    """Say what is declared, what the verdict is, and, with --outputs, --kubeconfig or --context, how the canary's pods are.

    Exits with 1 where a pod of the canary is not ready.
    """
    from fleet.rollout.planned import differences
    from settings.problems import SettingsError

    steps, name = _open(root, stack)
    settings = steps.settings
    if settings.as_canary is None:
        _tell(f"Stack {name} has no canary.")
        return CLEAN
    if settings.rollout.promoted is not None:
        _tell(f"Promoted: {settings.rollout.promoted}")
        _next(f"pulumi up --stack {name}", f"fleet rollout promote --finish --stack {name}")
    else:
        _tell(f"Declared: {'; '.join(differences(settings)) or 'nothing that differs from the servers'}")
    file = verdict or _newest(name)
    judged = _read_if_possible(file)
    if judged is None:
        if file is None or not file.exists():
            _tell(f"No verdict at {_place(file, name)}.")
    else:
        try:
            steps.verdict(judged)
        except SettingsError as error:
            _tell(f"The verdict at {file} does not promote it: {error.problems[0].why}")
        else:
            _tell(f"{file}: {judged.headline}")
    if outputs is None and kubeconfig is None and context is None:
        _tell("The cluster was not looked at: pass --outputs, --kubeconfig or --context.")
        return CLEAN
    return _pods(name, steps, outputs, kubeconfig, context)


def _pods(name: str, steps: Rollout, outputs: Path | None, kubeconfig: Path | None, context: str | None) -> int:
    from contextlib import ExitStack

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
    for pod in pods:
        _tell(f"{pod.name}: {'ready' if pod.ready else pod.why_not_ready}")
    ready = sum(pod.ready for pod in pods)
    _tell(f"{ready} of {canary.replicas} ready.")
    return CLEAN if ready == canary.replicas else FINDINGS


def _open(root: Path | None, stack: str | None) -> tuple[Rollout, str]:
    from fleet.cli.project import find_root, require_stack
    from fleet.rollout.steps import Rollout

    folder = find_root(root)
    name = require_stack(folder, stack)
    return Rollout(folder, name), name


def _declared(
    engine_version: str | None, image_digest: str | None, revision: str | None, profile: str | None, set_: Sequence[str]
) -> dict[str, Any]:
    """`rollout.canary` as the options say it."""
    options = {
        "profile": profile,
        "engine.version": engine_version,
        "image.tag": engine_version and image_digest and f"v{engine_version}",
        "image.digest": image_digest,
        "model.revision": revision,
    }
    given: list[tuple[str, Any]] = [(path, value) for path, value in options.items() if value is not None]
    for one in set_:
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


def _merge(into: dict[str, Any], more: dict[str, Any], path: str = "") -> None:
    """Raises CommandError where two options say different things of one key."""
    for name, value in more.items():
        where = f"{path}{name}"
        if name not in into:
            into[name] = value
        elif isinstance(into[name], dict) and isinstance(value, dict):
            _merge(into[name], value, f"{where}.")
        elif into[name] != value:
            given = " and as ".join(json.dumps(one) for one in (into[name], value))
            raise CommandError(f"{where} is given as {given}: leave one of them out")


def _value(option: str, text: str) -> Any:
    def number(digits: str) -> float:
        """Raises CommandError for what no stack file can hold."""
        found = float(digits) if {*digits} - {*"-0123456789"} else int(digits)
        if not -(2**53) <= found <= 2**53:
            raise CommandError(f"--set {option}: {digits} is not a number that a stack file can hold")
        return found

    try:
        return json.loads(text, parse_constant=number, parse_float=number, parse_int=number)
    except ValueError:
        return text


def _newest(stack: str) -> Path | None:
    """The newest verdict where `fleet rollout judge` puts them unless told otherwise."""
    from fleet.cli.judge import PLACE
    from fleet.rollout.judge.verdict import VERDICT_FILE

    own = re.compile(rf"{re.escape(stack)}-[0-9]{{8}}-[0-9]{{6}}")
    found = [one for one in PLACE.glob(f"*/{VERDICT_FILE}") if own.fullmatch(one.parent.name)]
    return max(found, default=None)


def _place(file: Path | None, stack: str) -> str:
    from fleet.cli.judge import PLACE

    return str(file or PLACE / f"{stack}-TIME")


def _read(file: Path | None) -> Verdict | None:
    if file is None or not file.exists():
        return None
    from fleet.rollout.judge.verdict import read

    return read(file)


def _read_if_possible(file: Path | None) -> Verdict | None:
    """For who is only told of it: what is wrong with it is said, and hinders nobody."""
    from fleet.bench.errors import BenchmarkError

    try:
        return _read(file)
    except BenchmarkError as error:
        _tell(str(error))
        return None


def _tell(text: str) -> None:
    from fleet.report.terminal import Page, stdout_paper

    page = Page(stdout_paper())
    page.prose(text, indent=0)
    page.print()


def _next(*commands: str) -> None:
    from fleet.report.terminal import Page, stdout_paper

    page = Page(stdout_paper())
    page.title("Next")
    for command in commands:
        page.pointer(command, indent=2)
    page.print()
