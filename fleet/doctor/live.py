"""Queries Google Cloud about a stack and evaluates the answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleet.clients.errors import LiveError
from fleet.doctor import gcloud
from fleet.doctor.gcloud import NoAnswerError
from fleet.doctor.judge import judge
from fleet.doctor.questions import ask_all
from fleet.doctor.rows import LiveReport
from settings.derived.quota_needs import quota_needs

if TYPE_CHECKING:
    from settings.stack import Settings


def look(settings: Settings, others: Sequence[Settings] = ()) -> LiveReport:
    """Checks Google Cloud for this stack; `others` are the project's other stacks, which are listed.

    Raises LiveError without gcloud, or if every query failed: no login, no network, no such project.
    """
    if not gcloud.is_installed():
        raise LiveError(
            "--live requires gcloud, which is not on PATH; install it: https://cloud.google.com/sdk/docs/install",
            reason="missing program",
        )
    begun = time.monotonic()
    answers = ask_all(settings)
    refused = [answer for answer in answers.values() if isinstance(answer, NoAnswerError)]
    if len(refused) == len(answers):
        raise _nobody_answered(settings.project, refused)
    return LiveReport(
        stack=settings.stack,
        project=settings.project,
        region=settings.region,
        zones=settings.zones,
        findings=judge(settings, answers),
        neighbours=neighbours(settings, others),
        seconds=time.monotonic() - begun,
    )


def neighbours(settings: Settings, others: Sequence[Settings]) -> tuple[str, ...]:
    """Usage by the project's other stacks of the quotas that this stack needs."""
    own = {need.quota.metric: need.quota for need in quota_needs(settings)}
    found = []
    for other in others:
        if other.project != settings.project or other.stack == settings.stack:
            continue
        taken = [
            " ".join(filter(None, (str(need.amount), need.quota.unit, need.quota.title)))
            for need in quota_needs(other)
            if (quota := own.get(need.quota.metric)) and (not quota.regional or other.region == settings.region)
        ]
        if taken:
            found.append(f"stack {other.stack} takes {', '.join(taken)}")
    return tuple(found)


def _nobody_answered(project: str, refused: Sequence[NoAnswerError]) -> LiveError:
    why = min(refused, key=lambda one: ("login", "unreachable", one.reason).index(one.reason))
    if why.reason == "login":
        return LiveError(f"gcloud has no valid login: {why} Run: gcloud auth login --update-adc", reason="credentials")
    return LiveError(
        f"every query about project {project} failed: {why}. Check the network, the proxy, and that "
        f"`gcloud projects describe {project}` works",
        reason="unreachable",
    )
