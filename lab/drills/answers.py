"""Ready replicas that answer otherwise, wrongly or not at all: only the answers probe sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from facts.texts import plural
from lab.drills.conditions import needs_servers, simulated_servers
from lab.drills.drill import ALONE, Drill, Proof
from lab.drills.operator import cordon, replaced

if TYPE_CHECKING:
    from lab.control_plane.api import Manifest
    from lab.stage.stage import Stage
    from settings.stack import Settings

ASKED_SECONDS: Final = 1800.0
"""Longest wait for what the probe finds: it asks once a minute, and the third question without an answer in a row counts."""
RESOLVED_SECONDS: Final = 1800.0
"""Longest wait for an alert to resolve: its log leaves the window after ten minutes."""


def _wrong_answer(stage: Stage, proof: Proof) -> None:
    began, servers = _probed(stage, proof), stage.servers
    lines, victim = len(stage.answers.lines), stage.ready_pods()[0]
    name, node = victim["metadata"]["name"], victim["spec"]["nodeName"]
    stage.timeline.note("pod", name, "a GPU computes wrongly: no error, other words", mood="bad")
    stage.traffic.answer(name, "other")
    stage.until("another answer to be found", lambda: stage.answers.told("differs", lines), ASKED_SECONDS)
    # At once: what a single replica says ten times in a row is its usual answer.
    stage.traffic.answer(name, "wrong")
    stage.timeline.note("pod", name, "and a wrong number", mood="bad")
    broke = stage.clock.now_seconds()
    stage.until("a wrong answer to be found", lambda: stage.answers.told("wrong", lines), ASKED_SECONDS)
    proof.figure("from the first wrong token to the probe's line", round(stage.clock.now_seconds() - broke), "s")
    _fires(proof, "AnswersWrong")
    _stays_ready(stage, proof, servers, began)
    stage.timeline.note("operator", node, "kubectl cordon; kubectl delete pod", mood="good")
    cordon(stage, node)
    _replace(stage, [victim], servers)
    elsewhere = all(pod["spec"]["nodeName"] != node for pod in stage.ready_pods() if pod["metadata"]["name"] != name)
    shared = "other replicas share its node" if stage.servers_a_machine > 1 else ""
    proof.check("its replacement is on another node", elsewhere, "another" if elsewhere else "the same", empty=shared)
    _is_silent(stage, proof, "AnswersDiffer", "AnswersWrong")


def _no_answer(stage: Stage, proof: Proof) -> None:
    began, servers = _probed(stage, proof), stage.servers
    lines, victims = len(stage.answers.lines), stage.ready_pods()
    for pod in victims:
        name = pod["metadata"]["name"]
        stage.timeline.note("pod", name, "all ranks hang: no tokens, no error", mood="bad")
        for rank in range(stage.settings.serving.engine.data_parallel_size):
            stage.traffic.hang(name, rank)
    stage.until("a missing answer to be found", lambda: stage.answers.told("failed", lines), ASKED_SECONDS)
    _fires(proof, "AnswersFail")
    _stays_ready(stage, proof, servers, began)
    stage.timeline.note("operator", stage.server, "kubectl delete pod --grace-period=30", mood="good")
    _replace(stage, victims, servers)
    _is_silent(stage, proof, "AnswersFail")


def _probed(stage: Stage, proof: Proof) -> float:
    """Wait for the probe's first answer; a stack without the probe gets it. Returns the simulated time."""
    lines = 0
    if not stage.settings.monitoring.has_probe:
        lines = len(stage.answers.lines)
        proof.succeeds("pulumi up with the probe succeeds", stage.up({"monitoring": {"probe": True}}))
    stage.until("the probe's first right answer", lambda: stage.answers.told("started", lines), ASKED_SECONDS)
    return stage.clock.now_seconds()


def _fires(proof: Proof, alert: str) -> None:
    """Check that an alert fires within its own time of what would fire it."""
    watch = proof.watch
    if watch is None:
        return
    watch.let_pass(alert)
    fired = sorted({one.alert for one in watch.fired()})
    proof.check(f"{alert} fires in its time", alert in fired, ", ".join(fired) or "no alert")


def _stays_ready(stage: Stage, proof: Proof, servers: int, began: float) -> None:
    lowest = stage.meter.ready_servers.lowest(began)
    proof.check("Kubernetes does not detect it: all replicas stay Ready", lowest == servers, f"{lowest} of {servers}")


def _replace(stage: Stage, pods: list[Manifest], servers: int) -> None:
    """Delete pods and wait for as many new ones."""
    names = [pod["metadata"]["name"] for pod in pods]
    replaced(stage, names, servers, plural(len(names), "replica"))
    stage.traffic.wait_for_endpoints(servers)


def _is_silent(stage: Stage, proof: Proof, *alerts: str) -> None:
    """Check that the probe finds nothing more at any replica, and that the alerts resolve."""
    # The question that is on its way may have gone to a replica that is gone.
    _ask(stage, 1)
    lines = len(stage.answers.lines)
    _ask(stage, 2 * len(stage.ready_pods()))
    more = [line.payload["step"] for line in stage.answers.lines[lines:]]
    proof.check("the probe finds nothing more", not more, ", ".join(more) or "right answers")
    watch = proof.watch
    if watch is not None:
        stage.until(
            f"{' and '.join(alerts)} to resolve",
            lambda: not any(fired.alert in alerts and fired.resolved_at is None for fired in watch.fired()),
            RESOLVED_SECONDS,
        )


def _ask(stage: Stage, times: int) -> None:
    enough = stage.answers.turns + times
    stage.until("the probe's next answers", lambda: stage.answers.turns >= enough, ASKED_SECONDS)


def _is_probed(settings: Settings) -> str:
    """Not where nothing is monitored or serves."""
    if not settings.monitoring.enabled:
        return "the stack is not monitored"
    if settings.scales_by_batch:
        return "no replica runs between batches"
    return simulated_servers(settings) or ("" if settings.is_scaled else needs_servers()(settings))


DRILLS = (
    Drill(
        name="wrong-answer",
        title="A replica gives other answers, then wrong ones",
        proves="Kubernetes does not detect it, the answers probe does, and the runbook's commands fix it",
        play=_wrong_answer,
        alerts=("AnswersDiffer", "AnswersWrong"),
        may_page=ALONE,
        skip=_is_probed,
    ),
    Drill(
        name="no-answer",
        title="All ranks of all replicas hang",
        proves="the answers probe detects it without a client, and it is silent once replicas answer",
        play=_no_answer,
        alerts=("AnswersFail",),
        may_page=("EngineStalled", *ALONE),
        skip=_is_probed,
    ),
)
