"""The session that compares releases on one node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from facts.releases import VERSIONS
from fleet.bench.releases import RELEASES, REPEATS, outline, session
from fleet.report.render import rendered
from settings.load import check, parse
from settings.stack_file import read

ROOT = Path(__file__).parents[3]


def test_every_known_release_is_measured_with_the_same_benchmark_and_a_price() -> None:
    asked = session(ROOT, "dev")
    assert tuple(run.version for run in asked.runs) == VERSIONS
    assert {run.price.runs for run in asked.runs} == {REPEATS}
    assert len({run.price.minutes for run in asked.runs}) == 1
    document = json.loads(rendered(outline(asked), "json"))
    assert document["minutes"] == round(sum(run.minutes for run in asked.runs))
    assert document["usd"] > 0
    assert 30 <= document["minutes"] <= 90


@pytest.mark.parametrize("version", RELEASES)
def test_no_releases_settings_are_refused(version: str) -> None:
    config = dict(read(ROOT, "dev").config)
    server = {"profile": "record", "replicas": 1, "engine": {"version": version, **RELEASES[version]}}
    settings = parse("dev", {**config, "vllm-fleet:server": json.dumps(server)})
    assert not [one for one in check(settings) if one.severity == "error"]


def test_each_release_has_its_commands() -> None:
    text = rendered(outline(session(ROOT, "dev")), "markdown")
    for version in VERSIONS:
        assert f"fleet rollout answers --stack dev --out out/releases/{version}\n" in text
        assert f"--out out/releases/{version}/run\n" in text
    assert text.count("fleet bench run --stack dev") == len(VERSIONS)
    first, *later = VERSIONS
    for version in later:
        assert f"--results out/releases/{first} out/releases/{version}" in text
