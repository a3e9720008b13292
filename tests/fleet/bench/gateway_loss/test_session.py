"""The session that splits a gateway's loss."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.bench.gateway_loss.session import LEAST_REPLICAS, outline, session
from fleet.bench.gateway_loss.variants import REPEATS, VARIANTS
from fleet.report.render import rendered
from settings.load import check, parse
from settings.problems import SettingsError
from settings.stack_file import read
from tests.fleet.cli.command import fleet

ROOT = Path(__file__).parents[4]
SECTION = re.compile(r"# Pulumi\.\w+\.yaml, (\w+): (.*)")


def states(stack: str) -> list[tuple[dict[str, Any], list[str]]]:
    """Sections to write and measurements to run, state by state, as the page has them."""
    document = rendered(outline(session(ROOT, stack)), "markdown")
    found = []
    for block in document.split("```")[1::2]:
        sections = {name: yaml.safe_load(value) for name, value in SECTION.findall(block)}
        runs = [line for line in block.splitlines() if line.startswith("fleet bench run")]
        if sections:
            found.append((sections, runs))
    return found


def test_what_the_page_says_to_write_makes_each_measurement_what_it_is() -> None:
    """A later state's sections replace the earlier ones."""
    stack = "gateway"
    config, written, expected = dict(read(ROOT, stack).config), dict[str, Any](), list(VARIANTS)
    for sections, runs in states(stack):
        written |= sections
        settings = parse(stack, {**config, **{f"vllm-fleet:{name}": json.dumps(one) for name, one in written.items()}})
        assert not [one for one in check(settings) if one.severity == "error"]
        for command in runs:
            variant = expected.pop(0)
            assert command.endswith(f"/{variant.id}")
            assert ("--not-streamed" in command) is not variant.streamed
            assert settings.routing == variant.routing
            assert settings.serving.engine.stream_interval == variant.stream_interval
            assert (settings.replicas, settings.benchmark.repeats) == (LEAST_REPLICAS, REPEATS)
    assert not expected


def test_the_session_has_a_time_and_a_price_and_restarts_the_servers_once() -> None:
    asked = session(ROOT, "gateway", replicas=3)
    document = json.loads(rendered(outline(asked), "json"))
    assert [one["id"] for one in document["measurements"]] == [one.id for one in VARIANTS]
    assert document["replicas"] == 3
    assert document["usd"] > 0
    intervals = [step.variant.stream_interval for step in asked.steps]
    assert sum(one != other for one, other in pairwise(intervals)) == 1
    assert asked.steps[0].update_minutes == 0


@pytest.mark.parametrize("stack", ["prod", "scaled", "canary"])
def test_a_stack_that_must_not_run_it_is_refused_with_a_command_that_works(stack: str, tmp_path: Path) -> None:
    for name in ("prod", "dev"):
        shutil.copy(ROOT / f"Pulumi.{name}.yaml", tmp_path)
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    if stack != "prod":
        file = tmp_path / "Pulumi.dev.yaml"
        server = "{profile: record, scaling: {mode: load, min: 1, max: 2}}" if stack == "scaled" else None
        text = file.read_text()
        if server:
            text = re.sub(r"  vllm-fleet:server:\n(    .*\n)+", f"  vllm-fleet:server: {server}\n", text)
        else:
            text += "  vllm-fleet:rollout: {canary: {replicas: 1, engine: {seed: 1}}}\n"
        file.write_text(text)
    with pytest.raises(SettingsError) as refused:
        session(tmp_path, "prod" if stack == "prod" else "dev", root=f" --root {tmp_path}")
    (finding,) = refused.value.problems
    assert finding.id == "stack-for-gateway-loss"
    assert fleet(*shlex.split(finding.write)[1:], cwd=tmp_path).returncode == 0
    assert (tmp_path / "Pulumi.gateway-loss.yaml").is_file()
