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
from fleet.bench.gateway_loss.variants import REPEATS, STREAM_INTERVAL, VARIANTS
from fleet.report.render import rendered
from settings.load import check, parse
from settings.problems import SettingsError
from settings.stack_file import read
from tests.fleet.cli.command import fleet
from tests.support.rows import each_row
from tests.support.settings import PREFILL_NODES

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


LIKE_THE_LAST = {
    "gateway": {"enabled": False},
    "endpoint": {"kind": "clusterIp"},
    "server": {"profile": "record", "engine": {"streamInterval": STREAM_INTERVAL}},
}


@each_row(
    "sections, takes_time",
    [
        ({}, True),
        ({name: LIKE_THE_LAST[name] for name in ("gateway", "endpoint")}, True),
        ({"server": LIKE_THE_LAST["server"]}, True),
        (LIKE_THE_LAST, False),
    ],
)
def test_time_and_cost_contain_the_restored_stack(sections: dict[str, Any], takes_time: bool, tmp_path: Path) -> None:
    asked = session(changed(tmp_path, **sections), "gateway")
    document = json.loads(rendered(outline(asked), "json"))
    restored = document["restore"]
    assert (restored["minutes"] > 0, restored["usd"] > 0) == (takes_time, takes_time)
    assert document["minutes"] == round(sum(step.minutes for step in asked.steps) + asked.restore_minutes)
    parts = sum(one["usd"] for one in (*document["measurements"], restored))
    assert document["usd"] == pytest.approx(parts, abs=0.01 * len(VARIANTS))


IMAGE = f"example.com/team/vllm-router:0.1.17@sha256:{'0' * 64}"


def changed(folder: Path, **sections: Any) -> Path:
    """A project whose stack gateway has these sections."""
    for name in ("Pulumi.yaml", "Pulumi.gateway.yaml"):
        shutil.copy(ROOT / name, folder)
    file = folder / "Pulumi.gateway.yaml"
    written = yaml.safe_load(file.read_text())
    written["config"] |= {f"vllm-fleet:{name}": section for name, section in sections.items()}
    file.write_text(yaml.safe_dump(written))
    return folder


LEAST_REQUEST = {"gateway": {"enabled": False}, "endpoint": {"kind": "leastRequest"}}
SHAPE = {"prefillGpus": 3, "decodeGpus": 5, "router": {"image": IMAGE}}


@pytest.mark.parametrize(
    ("sections", "because"),
    [
        (
            {"gateway": {"enabled": True, "epp": {"release": "llm-d-router-v0.10.0"}}},
            "gateway.epp.release: llm-d-router-v0.10.0",
        ),
        (
            {**LEAST_REQUEST, "server": {"profile": "tuned", "engine": {"speculative": None}, "shape": SHAPE}},
            "server.shape",
        ),
        (
            {
                "gateway": {"enabled": False},
                **{name: PREFILL_NODES[name] for name in ("capacity", "cluster", "server", "endpoint")},
            },
            "server.prefillNodes",
        ),
        ({**LEAST_REQUEST, "server": {"profile": "record", "replicas": 2, "rankPorts": True}}, "server.rankPorts"),
    ],
    ids=["llm-d's picker", "shape", "nodes", "rank ports"],
)
def test_a_stack_that_cannot_be_asked_past_its_endpoint_is_told_its_own_setting(
    sections: dict[str, Any], because: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as refused:
        session(changed(tmp_path, **sections), "gateway")
    (finding,) = refused.value.problems
    assert finding.id == "stack-for-gateway-loss"
    assert because in str(finding.found)


def test_the_page_keeps_the_stack_file_and_restores_it() -> None:
    lines = rendered(outline(session(ROOT, "gateway")), "markdown").splitlines()
    kept = lines.index("cp -n Pulumi.gateway.yaml Pulumi.gateway.yaml.before")
    restored = lines.index("mv Pulumi.gateway.yaml.before Pulumi.gateway.yaml")
    runs = [number for number, line in enumerate(lines) if line.startswith("fleet bench run")]
    assert kept < runs[0]
    assert runs[-1] < restored
    assert lines[restored + 1] == "pulumi up --stack gateway"


def test_the_page_says_that_the_routers_go_with_the_endpoint(tmp_path: Path) -> None:
    routed = {"gateway": {"enabled": False}, "endpoint": {"kind": "leastRequest", "router": {"replicas": 3}}}
    assert "`endpoint.router`" in rendered(outline(session(changed(tmp_path, **routed), "gateway")), "markdown")
    assert "`endpoint.router`" not in rendered(outline(session(ROOT, "gateway")), "markdown")


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
