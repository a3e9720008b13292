"""The whole benchmark against servers that count every token: sound, slow and saturated, and with vLLM's own client."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.certificate.certify import OPENINGS
from fleet.bench.folder import Witness
from lab.selftest.course import Outcome, run
from lab.selftest.load import SelfTest
from tests.fleet.cli.command import ROOT

pytestmark = pytest.mark.slow
TRUE = ROOT / ".venv-vllm" / "bin" / "python"


def played(folder: Path, **options: Any) -> Outcome:
    outcome = run(SelfTest(folder=folder / "measurement", **options))
    assert [f"{one.subject}: {one.found}" for one in outcome.findings if one.blocks] == []
    return outcome


def blamed(outcome: Outcome) -> dict[str, str | None]:
    """Whom each failed check of the certificate blames."""
    return {one.id: one.blames for one in outcome.measured.judged.certificate.checks if one.verdict == "failed"}


def test_sound_servers_are_found_sound(tmp_path: Path) -> None:
    outcome = played(tmp_path)
    assert len(outcome.findings) == 7
    assert outcome.measured.judged.certificate.verdict == "not certified"  # it is too short


def test_slow_servers_are_not_blamed_on_the_clients(tmp_path: Path) -> None:
    outcome = played(tmp_path, mode="slow-server")
    assert blamed(outcome)["engine-balance"] == "server"
    assert "client" not in blamed(outcome).values()


def test_a_saturated_client_is_caught(tmp_path: Path) -> None:
    outcome = played(tmp_path, mode="saturated-client")
    assert OPENINGS["limit"] in outcome.measured.judged.certificate.reason
    # One that reads several chunks at once spends less on each.
    assert outcome.before is not None
    assert outcome.client.us_per_chunk < outcome.before.us_per_chunk


@pytest.mark.skipif(not os.environ.get("CI") and not TRUE.exists(), reason="`make bench-vllm` installs vLLM")
def test_the_true_client_agrees_with_servers_that_count_every_token(tmp_path: Path) -> None:
    outcome = played(tmp_path, vllm=TRUE, clients=3, connections=48)
    file = min(outcome.measured.folder.glob("*/client-*.witness.json"))
    assert Witness.model_validate_json(file.read_bytes()).program == "vllm bench serve 0.18.1"
