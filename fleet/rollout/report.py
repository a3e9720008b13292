"""What each step of a rollout reports: an outline of its findings and of the commands that come next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from facts.finding import Finding
from fleet.report.outline import Findings, Items, Outline, Prose, Section, next_steps, some
from fleet.rollout.planned import difference_rows, differences
from fleet.rollout.soak import speaks_against
from settings.derived.canary import weights_ending

if TYPE_CHECKING:
    from fleet.clients.errors import LiveError
    from fleet.rollout.steps import Change
    from fleet.verify.facts import Pod
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A stored verdict, as this stack may use it."""

    file: Path
    verdict: str | None
    """None: the file holds no verdict that can be read."""
    headline: str
    applies: bool
    """Whether it promotes the declared canary."""

    def as_json(self) -> dict[str, Any]:
        """The verdict in the document of `status`."""
        return {
            "file": str(self.file),
            "verdict": self.verdict,
            "headline": self.headline,
            "applies": self.applies,
        }

    def finding(self) -> Finding:
        """The verdict and its file."""
        return Finding(
            id="canary-verdict",
            subject=str(self.file),
            severity="passed" if self.applies else "warning",
            found=self.headline,
        )


def started(change: Change) -> Prose:
    """What `start` wrote, below the plan."""
    created = "weights and pods" if weights_ending(change.after) else "pods"
    return Prose(
        f"{change.path.name} now declares the canary. `pulumi up` creates its {created} beside the servers and restarts no "
        f"server. {share_of_requests(change.after)}. Commit the file first: a failed promotion is reverted to this commit."
    )


def after_start(change: Change) -> tuple[str, ...]:
    """The commands from the declared canary to its end."""
    stack, after = change.after.stack, change.after
    shares = () if after.canary_weight else (f"fleet rollout weight 5 --stack {stack}", *_applied(change))
    return (
        f"fleet preview --stack {stack} --against HEAD",
        *_applied(change),
        f"fleet verify --stack {stack} --canary --answers",
        f"fleet rollout judge --stack {stack}",
        *((*shares, f"fleet rollout watch --stack {stack}") if after.gateway.enabled else ()),
        f"fleet rollout promote --stack {stack}, or fleet rollout abort --stack {stack}",
    )


def _applied(change: Change) -> tuple[str, str]:
    """The commands that bring a written stack file to the cluster."""
    return f"git commit {change.path.name}", f"pulumi up --stack {change.after.stack}"


def share_of_requests(settings: Settings) -> str:
    """Which users' requests the canary answers."""
    if settings.canary_pool is None:
        return "Offline trial: users' requests do not reach the canary"
    return f"Users' requests: {', '.join(f'{percent} % to pool {pool}' for pool, percent in settings.shares.items())}"


def weighed(change: Change) -> Outline:
    """The canary's share of the users' requests is another in the stack file."""
    stack, percent = change.after.stack, change.after.canary_weight
    return Outline(
        title=f"Canary of {stack}",
        kind="weight",
        verdict=f"{change.path.name}: {share_of_requests(change.after)}.",
        tone="good",
        body=some(
            Prose("`pulumi up` changes the route's weights and restarts no server."),
            next_steps(*_applied(change), *((f"fleet rollout watch --stack {stack}",) if percent else ())),
        ),
    )


def soaked(settings: Settings, findings: Sequence[Finding], kind: str) -> Outline:
    """What the alerts' expressions said of canary and servers, and the canary's answers."""
    stack, refused = settings.stack, speaks_against(findings)
    return Outline(
        title=f"Canary of {stack}",
        kind=kind,
        verdict="The canary is not to be promoted." if refused else "Nothing speaks against the canary.",
        tone="bad" if refused else "good",
        body=some(
            Findings(tuple(findings)),
            Prose(f"{share_of_requests(settings)}."),
        ),
        data={"stack": stack, "weight": settings.canary_weight},
    )


def halted(change: Change, in_cluster: bool) -> Outline:
    """The canary gets no more of the users' requests."""
    stack = change.after.stack
    where = (
        "The route sends every request to the servers now" if in_cluster else "The route does not lead to the canary"
    )
    return Outline(
        title=f"Canary of {stack}",
        kind="halt",
        verdict=f"{where}, and {change.path.name} declares it.",
        body=(
            Prose("The next `pulumi up` keeps it so. The canary's pods stay, to be looked at."),
            next_steps(f"fleet rollout status --stack {stack}", f"fleet rollout abort --stack {stack}"),
        ),
    )


def not_halted(change: Change, error: LiveError) -> str:
    """The users may still reach the canary, though the stack file says otherwise."""
    stack = change.after.stack
    return (
        f"not halted in the cluster: users' requests may still reach the canary. {str(error).rstrip('.')}. {change.path.name} has "
        f"`weight: 0` already: run `pulumi up --stack {stack}`, or `fleet rollout halt --stack {stack}` again"
    )


def promoted(change: Change, judged: Judged | None) -> Outline:
    """The servers have the canary's version in the stack file."""
    stack, file, servers = change.after.stack, change.path.name, change.after.replicas
    replaced = f"the {servers} servers, one at a time." if servers > 1 else "the server."
    reused = " They reuse the canary's weights without another download." if weights_ending(change.before) else ""
    return Outline(
        title=f"Canary of {stack}",
        kind="promote",
        verdict=f"{file}: the servers now have the canary's version; the canary stays.",
        tone="good",
        head=some(judged.finding() if judged else None),
        body=some(
            Prose(f"`pulumi up` replaces {replaced}{reused}"),
            Prose("Requests fail until the new server is ready.", "warn") if servers == 1 else None,
            Prose(
                "If a new server does not become ready, the update stops: restore the stack file of the commit of `fleet rollout start` "
                f"(`git checkout COMMIT -- {file}`), and run `pulumi up` again."
            ),
            next_steps(
                f"fleet preview --stack {stack} --against HEAD",
                *_applied(change),
                f"fleet verify --stack {stack}",
                f"fleet rollout promote --finish --stack {stack}",
            ),
        ),
    )


def finished(change: Change) -> Outline:
    """The promoted canary is removed from the stack file."""
    stack = change.after.stack
    return Outline(
        title=f"Canary of {stack}",
        kind="promote --finish",
        verdict=f"{change.path.name}: the canary is removed.",
        tone="good",
        body=(
            Prose("`pulumi up` deletes its pods and lowers the GPU quota."),
            next_steps(*_applied(change), f"fleet verify --stack {stack}"),
        ),
    )


def aborted(change: Change, judged: Judged | None) -> Outline:
    """The canary is removed from the stack file, and the servers keep their version."""
    return Outline(
        title=f"Canary of {change.after.stack}",
        kind="abort",
        verdict=f"{change.path.name}: the canary is removed. The servers are unaffected.",
        head=some(judged.finding() if judged else None),
        body=(
            Prose("`pulumi up` deletes the canary's pods and weights."),
            next_steps(f"pulumi up --stack {change.after.stack}"),
        ),
    )


def status(settings: Settings, judged: Judged | None, place: str, pods: Sequence[Pod] | None) -> Outline:
    """The declared canary, its verdict, and its pods where a cluster was asked. `place`: where a verdict would be."""
    stack, canary = settings.stack, settings.as_canary
    if canary is None:
        return Outline(
            title=f"Canary of {stack}",
            kind="status",
            verdict="No canary is declared.",
            data={"stack": stack, "canary": None},
        )
    was_promoted = settings.rollout.promoted
    unjudged = Finding(
        id="canary-verdict",
        subject=place,
        severity="unknown",
        found="no verdict",
        write=f"fleet rollout judge --stack {stack}",
    )
    steps = (f"pulumi up --stack {stack}", f"fleet rollout promote --finish --stack {stack}")
    document: dict[str, Any] = {
        "stack": stack,
        "canary": canary.server.name,
        "replicas": canary.replicas,
        "weight": None if settings.canary_pool is None else settings.canary_weight,
        "differences": difference_rows(settings),
        "promoted": was_promoted,
        "verdict": judged.as_json() if judged else None,
    }
    if pods is not None:
        document["pods"] = [
            {
                "name": pod.name,
                "ready": pod.ready,
                "terminating": pod.going,
                "whyNotReady": None if pod.ready else pod.why_not_ready,
            }
            for pod in pods
        ]
    return Outline(
        title=f"Canary {canary.server.name}",
        kind="status",
        verdict=f"Promoted: {was_promoted}" if was_promoted else "Declared, not promoted.",
        tone="good" if was_promoted else "plain",
        body=some(
            None if was_promoted else _declared(settings),
            Section(title="Verdict", body=some(judged.finding() if judged else None if was_promoted else unjudged)),
            Section(title="Pods", body=(Findings(_pods(pods, canary.replicas)),)),
            next_steps(*steps) if was_promoted else None,
        ),
        data=document,
    )


def _declared(settings: Settings) -> Section:
    return Section(
        title="What differs",
        body=(
            Items(tuple(differences(settings)) or ("nothing differs from the servers",)),
            Prose(f"{share_of_requests(settings)}{_in_file(settings)}."),
        ),
    )


def _in_file(settings: Settings) -> str:
    """A share is what the stack file declares; the route may have another."""
    if settings.canary_pool is None:
        return ""
    return f", as the stack file declares; `fleet verify --stack {settings.stack}` compares the route in the cluster"


def _pods(pods: Sequence[Pod] | None, wanted: int) -> tuple[Finding, ...]:
    """One finding for each pod, then whether enough are ready: only the latter decides the exit code."""
    if pods is None:
        return (
            Finding(
                id="canary-pods",
                subject="canary's pods",
                severity="unknown",
                found="not checked",
                write="--outputs, --kubeconfig or --context",
            ),
        )
    staying = [pod for pod in pods if not pod.going]
    ready, surplus = sum(pod.ready for pod in staying), len(staying) - wanted
    suffices = ready >= wanted
    return (
        *(_pod(pod, suffices=suffices) for pod in pods),
        Finding(
            id="canary-pods",
            subject="canary's pods",
            severity="error" if not suffices else "warning" if surplus > 0 else "passed",
            found=f"{ready} of {wanted} ready"
            if surplus <= 0
            else f"{ready} ready; {len(staying)} pods for {wanted} declared",
        ),
    )


def _pod(pod: Pod, *, suffices: bool) -> Finding:
    """One pod. `suffices`: enough others are ready, so that one that is not ready does not block."""
    if pod.going:
        return Finding(id="canary-pod", subject=pod.name, severity="note", found="terminating")
    if pod.ready:
        return Finding(id="canary-pod", subject=pod.name, severity="passed", found="ready")
    return Finding(
        id="canary-pod", subject=pod.name, severity="warning" if suffices else "error", found=pod.why_not_ready
    )
