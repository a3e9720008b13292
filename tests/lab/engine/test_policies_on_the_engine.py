"""What Pulumi's engine prints of a pack that a configuration switches off, and what a rehearsal's report makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from facts.lessons.verdict import RULES_NOT_ASKED
from fleet.preview.offline import open_stack
from fleet.preview.record.redact import Redactor
from lab.engine.pulumi import Pulumi
from lab.providers.base import Served
from lab.providers.google.cloud import SimulatedCloud
from lab.providers.google.provider import Google
from lab.providers.observed import Observed
from lab.results.clock import Clock
from lab.stage.update_report import UpReport
from tests.fleet.cli.command import ROOT
from tests.support.plain_kubernetes import PlainKubernetes

pytestmark = pytest.mark.slow

STACK = "smoke"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pulumi, Observed]]:
    clock = Clock(60.0)
    observed = Observed(clock)
    with Served(Google(observed, SimulatedCloud()), PlainKubernetes(observed)) as served:
        pulumi = Pulumi(ROOT, tmp_path_factory.mktemp("engine") / "run", providers=served.ports)
        pulumi.stage(open_stack(ROOT, STACK))
        yield pulumi, observed


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"all": "disabled"}', True),
        ('{"all": "disabled", "rules-not-asked": "disabled"}', True),
        ('{"broad-roles": "advisory", "hourly-cost-above-ceiling": {"maxUsdPerHour": 2}}', True),
        (None, True),
        ('{"hourly-cost-above-ceiling": {"maxUsdPerHour": 2}}', False),
    ],
)
def test_the_engine_and_a_rehearsal_tell_what_is_not_asked(
    engine: tuple[Pulumi, Observed], tmp_path: Path, text: str | None, told: bool
) -> None:
    pulumi, observed = engine
    (tmp_path / "config.json").write_text(text or "")
    config = ("--policy-pack-config", str(tmp_path / "config.json")) if text else ()
    outcome = pulumi.preview(STACK, "--policy-pack", "policy", *config)
    assert outcome.succeeded, outcome.output
    printed = [one for one in outcome.planned.violations if one.policy == RULES_NOT_ASKED]
    assert [one.level for one in printed] == ["advisory"] * told
    findings = [one for one in UpReport.of(outcome, observed, Redactor(())).findings if one.subject == RULES_NOT_ASKED]
    assert [one.severity for one in findings] == ["warning"] * told
    assert all(one.found and one.write for one in findings)
