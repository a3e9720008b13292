"""Asks Google Cloud about a stack: all questions at once, each with its own answer or the reason for its absence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from facts.finding import Finding
from fleet.clients.errors import LiveError
from fleet.clients.google_api import LOGIN
from fleet.clients.side_by_side import side_by_side
from fleet.doctor import door, network, project, quota
from fleet.doctor.google import Google
from fleet.doctor.rows import LiveReport, Question, row
from settings.derived.quota_needs import quota_needs

if TYPE_CHECKING:
    from settings.stack import Settings


def look(settings: Settings, others: Sequence[Settings] = ()) -> LiveReport:
    """Checks Google Cloud for this stack; `others` are the project's other stacks, which are listed. Raises LiveError without a login."""
    begun = time.monotonic()
    return LiveReport(
        stack=settings.stack,
        project=settings.project,
        region=settings.region,
        zones=settings.zones,
        findings=findings(settings, Google()),
        neighbours=neighbours(settings, others),
        seconds=time.monotonic() - begun,
    )


def findings(settings: Settings, google: Google) -> tuple[Finding, ...]:
    """Every row, in the order of a first `pulumi up`."""
    asked = [one for part in (project, quota, network, door) for one in part.questions(settings)]

    def answer(question: Question) -> tuple[Finding, ...]:
        try:
            return tuple(question.ask(google))
        except LiveError as error:
            why, mend = str(error), LOGIN if error.reason == "credentials" else question.look
        except (LookupError, TypeError, ValueError, AttributeError):
            why, mend = "Google's answer does not have what is asked for", question.look
        return (
            row(area=question.area, name=question.name, state="unknown", needed="", granted="", why=why, mend=mend),
        )

    return tuple(one for rows in side_by_side(answer, asked, len(asked)) for one in rows)


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
