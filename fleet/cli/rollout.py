"""`fleet rollout`: upgrades that run on one canary replica first."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from facts.finding import block
from fleet.bench.errors import BenchmarkError
from fleet.cli import judge
from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.judge import PLACE
from fleet.cli.options import Context, Format, Kubeconfig, Live, OneStack, Profile
from fleet.doctor.packages import require_benchmark_packages
from fleet.report.outline import next_steps
from fleet.rollout.effort import SOAK_MINUTES

if TYPE_CHECKING:
    from facts.finding import Finding
    from fleet.clients.kubectl import Kubectl
    from fleet.clients.prometheus import ManagedPrometheus
    from fleet.rollout.judge.verdict import Verdict
    from fleet.rollout.report import Judged
    from fleet.rollout.steps import Rollout
    from fleet.verify.facts import Pod
    from settings.stack import Settings

rollout = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Upgrade one replica first: plan, start, judge, then promote or abort. Edits the stack file.",
)
rollout.command(short_help="Compare the canary with an old replica: promote, reject or undecided.")(judge.judge)
rollout.command(short_help="Keep one replica's answers, to compare releases that run one after the other.")(
    judge.answers
)

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


@with_fields
def _plan_or_start(context: typer.Context, of: OneStack, version: Version, format_: Format = "text") -> int:
    """Show what a canary would change, what it costs and how long it takes. Writes nothing."""
    from fleet.rollout.planned import outline
    from fleet.rollout.report import after_start, started

    change = _open(of)[0].start(version.declared())
    starts = context.info_name == "start"
    if starts:
        change.write()
    start = shlex.join(["fleet", *("start" if word == "plan" else word for word in sys.argv[1:])])
    then = next_steps(*(() if starts else (start,)), *after_start(change))
    show(outline(change.before, change.after, *((started(change),) if starts else ()), then), format_)
    return CLEAN


rollout.command("plan", short_help="Show what a canary would change, cost and take. Writes nothing.")(_plan_or_start)
rollout.command(
    "start",
    short_help="Declare the canary in the stack file, and show its plan.",
    help="Declare the canary in the stack file, as vllm-fleet:rollout, and show what it changes, costs and takes.",
)(_plan_or_start)


@rollout.command(short_help="Give the servers the canary's version; with --finish, remove the canary.")
@with_fields
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
    soak_minutes: Annotated[
        int, typer.Option("--soak-minutes", min=10, max=1440, help="Minutes among users that are looked at.")
    ] = SOAK_MINUTES,
    finish: Annotated[
        bool, typer.Option("--finish", help="After `pulumi up`: remove the canary from the stack file.")
    ] = False,
) -> int:
    """Give the servers in the stack file the canary's version. The canary stays until --finish.

    Needs a verdict `promote` for exactly this canary and these servers. Of a canary among users it also reads
    the alerts' expressions of the last --soak-minutes, and exits with 1 if one held or too few requests came.
    """
    from fleet.rollout.report import finished, promoted, soaked
    from fleet.rollout.soak import speaks_against

    steps, name = _open(of)
    if finish:
        change = steps.finish()
        change.write()
        show(finished(change), "text")
        return CLEAN
    judged, why = None, f"without a verdict: {without_verdict}"
    if without_verdict is None:
        judged = _promoting(steps, verdict, name)
        if steps.settings.canary_pool is not None and steps.settings.rollout.promoted is None:
            findings = _soak(steps.settings, soak_minutes)
            if speaks_against(findings):
                show(soaked(steps.settings, findings, "promote"), "text")
                return FINDINGS
        why = judged.headline[:500]
    change = steps.promote(why)
    change.write()
    show(promoted(change, judged), "text")
    return CLEAN


@rollout.command(short_help="Give the canary a share of the users' requests, through the gateway.")
@with_fields
def weight(
    of: OneStack,
    percent: Annotated[int, typer.Argument(min=0, max=50, help="Percent of the users' requests; 0 takes it back.")],
) -> int:
    """Set the percent of the users' requests that the gateway sends to the canary, in the stack file."""
    from fleet.rollout.report import weighed

    change = _open(of)[0].weigh(percent)
    change.write()
    show(weighed(change), "text")
    return CLEAN


@rollout.command(
    short_help="Watch the canary among users, and halt it when an alert's expression holds or an answer is wrong."
)
@with_fields
def watch(
    of: OneStack,
    live: Live,
    minutes: Annotated[int, typer.Option("--minutes", min=10, max=1440, help="How long.")] = SOAK_MINUTES,
) -> int:
    """Read the alerts' expressions of canary and servers and ask the canary's pods every 30 seconds; halt it at the first error.

    RequestsFail and FirstTokenSlow for the time of their alert, a wrong answer to a short question or none three
    times in a row, no available replica for a minute, or three looks that failed: the route sends every request to the
    servers, and the stack file says so. Exits with 1 then, or if too few requests came. If the stack has an API key, set VLLM_API_KEY.
    """
    from fleet.cli.verify import api_key
    from fleet.rollout import soak
    from fleet.rollout.canary_answers import CanaryAnswers
    from fleet.rollout.report import soaked

    steps, name = _open(of)
    _among_users(steps, name, "watch")
    key, prometheus = api_key(steps.settings), _prometheus(steps.settings)
    with _kubectl(steps, name, live) as kubectl:
        answers = CanaryAnswers(kubectl, steps.settings, key)
        findings = soak.watch(steps.settings, prometheus, answers.ask, seconds=60 * minutes)
    show(soaked(steps.settings, findings, "watch"), "text")
    if any(one.severity == "error" for one in findings):
        _halt(steps, name, live)
        return FINDINGS
    return FINDINGS if soak.speaks_against(findings) else CLEAN


@rollout.command(short_help="Take the users' requests from the canary at once.")
@with_fields
def halt(of: OneStack, live: Live) -> int:
    """Send every request to the servers, in the cluster and in the stack file. The canary's pods stay."""
    steps, name = _open(of)
    _among_users(steps, name, "take back")
    _halt(steps, name, live)
    return CLEAN


@rollout.command(short_help="Remove the canary from the stack file.")
@with_fields
def abort(of: OneStack, verdict: VerdictFile = None) -> int:
    """Remove the canary from the stack file. The servers are unaffected."""
    from fleet.rollout.report import aborted

    steps, name = _open(of)
    change = steps.abort()
    judged = _verdict_on(steps, verdict or _newest(name))
    change.write()
    show(aborted(change, judged), "text")
    return CLEAN


@rollout.command(short_help="Show the declared canary, its verdict and its pods.")
@with_fields
def status(
    of: OneStack,
    verdict: VerdictFile = None,
    outputs: ClusterOf = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    format_: Format = "text",
) -> int:
    """Show the declared canary and its verdict; with --outputs, --kubeconfig or --context, also its pods.

    Exits with 1 if fewer replicas of the canary are ready than declared. Terminating pods do not count.
    """
    from fleet.rollout import report

    steps, name = _open(of)
    judged, pods = None, None
    if steps.settings.as_canary is not None:
        judged = _verdict_on(steps, verdict or _newest(name))
        if outputs is not None or kubeconfig is not None or context is not None:
            pods = _pods(name, steps, outputs, kubeconfig, context)
    told = report.status(steps.settings, judged, _place(verdict, name), pods)
    show(told, format_)
    return FINDINGS if block(told.findings) else CLEAN


def _promoting(steps: Rollout, given: Path | None, stack: str) -> Judged:
    """The verdict that promotes the declared canary. Raises CommandError or SettingsError without one."""
    from fleet.rollout.report import Judged

    steps.declared()
    file = given or _newest(stack)
    stored = _read(file)
    if file is None or stored is None:
        raise CommandError(
            f"no verdict at {_place(file, stack)}; run `fleet rollout judge --stack {stack}`, pass --verdict FILE, or promote "
            "with --without-verdict REASON"
        )
    steps.verdict(stored)
    return Judged(file=file, verdict=stored.verdict, headline=stored.headline, applies=True)


def _verdict_on(steps: Rollout, file: Path | None) -> Judged | None:
    """The stored verdict, and whether it promotes the declared canary."""
    from fleet.rollout.report import Judged
    from settings.problems import SettingsError

    if file is None:
        return None
    stated = None
    try:
        stored = _read(file)
        if stored is None:
            return None
        stated = stored.verdict
        steps.verdict(stored)
    except (BenchmarkError, CommandError) as error:
        return Judged(file=file, verdict=None, headline=str(error), applies=False)
    except SettingsError as error:
        why = f"does not promote this canary: {error.problems[0].why}"
        return Judged(file=file, verdict=stated, headline=why, applies=False)
    return Judged(file=file, verdict=stated, headline=stored.headline, applies=True)


def _pods(
    name: str, steps: Rollout, outputs: Path | None, kubeconfig: Path | None, context: str | None
) -> tuple[Pod, ...]:
    """The canary's pods in the cluster. Raises LiveError."""
    from fleet.clients import stack_outputs
    from fleet.clients.kubectl import Kubectl
    from fleet.verify.cluster import read_pods

    canary = steps.settings.as_canary
    assert canary is not None
    with ExitStack() as stack:
        file = kubeconfig
        if outputs is not None and file is None and context is None:
            file = stack.enter_context(stack_outputs.read(name, steps.path.parent, outputs).kubeconfig_file())
        return read_pods(Kubectl(namespace=canary.namespace, kubeconfig=file, context=context), canary)


def _among_users(steps: Rollout, name: str, to_do: str) -> None:
    """Raises CommandError for an offline trial, SettingsError without a canary."""
    steps.declared()
    if steps.settings.canary_pool is None:
        raise CommandError(
            f"stack {name} has no canary among users: it is an offline trial, without users' requests to {to_do}"
        )


def _prometheus(settings: Settings) -> ManagedPrometheus:
    require_benchmark_packages()
    from fleet.clients.google_api import UserCredentials
    from fleet.clients.prometheus import ManagedPrometheus

    return ManagedPrometheus(settings.project, UserCredentials())


def _soak(settings: Settings, minutes: int) -> tuple[Finding, ...]:
    from fleet.rollout import soak

    now = time.time()
    return soak.look(_prometheus(settings), settings, now - 60 * minutes, now)


@contextmanager
def _kubectl(steps: Rollout, name: str, live: Live) -> Iterator[Kubectl]:
    """The stack's cluster. Raises LiveError without outputs."""
    from fleet.clients import stack_outputs
    from fleet.clients.kubectl import Kubectl

    with ExitStack() as stack:
        file = live.kubeconfig
        if not live.names_cluster:
            outputs = stack_outputs.read(name, steps.path.parent, live.outputs)
            file = stack.enter_context(outputs.kubeconfig_file())
        yield Kubectl(namespace=steps.settings.namespace, kubeconfig=file, context=live.context)


def _halt(steps: Rollout, name: str, live: Live) -> None:
    """The cluster first; the stack file also where the cluster cannot be reached. Raises LiveError, which says so."""
    from fleet.clients.errors import LiveError
    from fleet.rollout.report import halted, not_halted
    from fleet.rollout.soak import halt_in_cluster

    change = steps.weigh(0)
    try:
        with _kubectl(steps, name, live) as kubectl:
            in_cluster = halt_in_cluster(kubectl, steps.settings)
    except LiveError as error:
        raise LiveError(not_halted(change, error), reason=error.reason) from None
    finally:
        change.write()
    show(halted(change, in_cluster), "text")


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
