"""The session that compares releases on one node."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from facts.releases import VERSIONS
from fleet.bench.ceiling import CEILING
from fleet.bench.releases import RELEASES, REPEATS, outline, session
from fleet.preview.policy_config import PolicyError
from fleet.report.render import rendered
from settings.load import check, parse
from settings.problems import SettingsError
from settings.stack_file import read
from tests.fleet.cli.command import fleet
from tests.policy.samples import rule_named
from tests.support.rows import each_row

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


@pytest.mark.parametrize("stack", ["cud", "prod", "smoke", "h100", "another model"])
def test_a_stack_that_must_not_run_it_is_refused_with_a_command_that_works(stack: str, tmp_path: Path) -> None:
    for name in ("dev", "cud", "prod", "smoke", "h100"):
        shutil.copy(ROOT / f"Pulumi.{name}.yaml", tmp_path)
    if stack == "another model":
        with (tmp_path / "Pulumi.dev.yaml").open("a") as file:
            file.write("  vllm-fleet:model: {id: Qwen/Qwen3.5-4B}\n")
        stack = "dev"
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    with pytest.raises(SettingsError) as refused:
        session(tmp_path, stack, f" --root {tmp_path}")
    (finding,) = refused.value.problems
    assert (finding.id, finding.subject) == ("stack-for-releases", f"--stack {stack}")
    for command in finding.write.split(" && "):
        assert fleet(*shlex.split(command)[1:], cwd=tmp_path).returncode == 0
    assert (tmp_path / "Pulumi.releases.yaml").is_file()


NAME = "hourly-cost-above-ceiling"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The policy config file of a stack dev of its own."""
    for name in ("Pulumi.yaml", "Pulumi.dev.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "policy/config").mkdir(parents=True)
    return tmp_path / "policy/config/dev.json"


@each_row(
    ("given", "blocked"),
    {
        "below the price": ({NAME: {"maxUsdPerHour": 35}}, True),
        "at the price": ({NAME: {"maxUsdPerHour": 36}}, False),
        "a price of a contract": ({NAME: {"maxUsdPerHour": 35, "usdPerNodeHour": 20}}, False),
        "no ceiling": ({NAME: "mandatory"}, False),
        "advisory": ({NAME: {"maxUsdPerHour": 35, "enforcementLevel": "advisory"}}, False),
        "disabled": ({NAME: {"maxUsdPerHour": 35, "enforcementLevel": "disabled"}}, False),
        "all advisory": ({"all": "advisory", NAME: {"maxUsdPerHour": 35}}, False),
        "all disabled": ({"all": {"enforcementLevel": "disabled"}, NAME: {"maxUsdPerHour": 35}}, False),
        "all advisory but this": (
            {"all": "advisory", NAME: {"maxUsdPerHour": 35, "enforcementLevel": "mandatory"}},
            True,
        ),
        "remediate": ({NAME: {"maxUsdPerHour": 35, "enforcementLevel": "remediate"}}, True),
        "of other policies": ({NAME: {"maxUsdPerHour": 35}, "broad-roles": "disabled"}, True),
    }.values(),
)
def test_a_ceiling_blocks_the_session_where_its_policy_would_stop_the_update(
    given: dict[str, Any], blocked: bool, config: Path
) -> None:
    config.write_text(json.dumps(given))
    folder = config.parents[2]
    if not blocked:
        assert session(folder, "dev").stack == "dev"
        return
    with pytest.raises(SettingsError) as refused:
        session(folder, "dev")
    (finding,) = refused.value.problems
    assert (finding.id, finding.subject) == (NAME, "policy/config/dev.json")
    assert finding.write.endswith('{"maxUsdPerHour": 36}')


@pytest.mark.parametrize("limits", ["Mandatory", {"maxUsdPerHour": "35"}, {"maxUsd": 35}])
def test_limits_that_the_pack_refuses_are_refused(limits: Any, config: Path) -> None:
    config.write_text(json.dumps({NAME: limits}))
    with pytest.raises(PolicyError, match=r"policy/config/dev\.json: hourly-cost-above-ceiling"):
        session(config.parents[2], "dev")


def test_the_ceilings_policy_is_declared_as_in_the_pack() -> None:
    rule = rule_named(NAME)
    assert (CEILING.name, CEILING.level) == (rule.name, rule.level)
    assert CEILING.schema == {setting.name: {"type": setting.type} for setting in rule.settings}
