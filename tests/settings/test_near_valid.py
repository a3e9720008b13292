"""Configurations that are almost right: one thing wrong somewhere in what the schema allows is told at its own key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from facts.finding import Finding
from settings.load import check, parse
from settings.problems import SettingsError
from settings.sections.section import PATTERN_TEXTS
from tests.settings import near_valid
from tests.settings.near_valid import Config
from tests.support.canaries import CANARIES, shown
from tests.support.rows import each_row
from tests.support.settings import make_config, make_settings

FEW = settings(suppress_health_check=[*HealthCheck])


def refusals(config: Config) -> Sequence[Finding]:
    """What is refused before anything is held against anything else."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    try:
        parsed = parse("x", texts)
    except SettingsError as error:
        return error.problems
    for problem in check(parsed):
        assert problem.text()
    return ()


@FEW
@given(near_valid.near_valid())
def test_what_is_wrong_is_told_at_its_key(drawn: tuple[Config, Config, near_valid.Path]) -> None:
    right, wrong, path = drawn
    told = refusals(wrong)
    if not told or refusals(right):
        return
    if path[-1] == "mode":
        path = path[:-1]  # another mode has other keys
    place = str(path[0]) + "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path[1:])
    assert any(one.subject.startswith(place) or place.startswith(one.subject) for one in told), (place, told)
    for one in told:
        assert not any(pattern in one.text() for pattern in PATTERN_TEXTS), one


def test_every_pattern_of_the_schema_is_said_in_words() -> None:
    schema = json.dumps(near_valid.SCHEMA)
    assert all(json.dumps(pattern)[1:-1] in schema for pattern in PATTERN_TEXTS)
    assert set(_patterns(near_valid.SCHEMA["$defs"])) <= PATTERN_TEXTS.keys()


def _patterns(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [one for part in schema for one in _patterns(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    return own + [one for part in schema.values() for one in _patterns(part)]


def refused(**sections: Any) -> dict[str, Finding]:
    with pytest.raises(SettingsError) as error:
        make_settings(**sections)
    return {problem.subject.removeprefix("vllm-fleet:"): problem for problem in error.value.problems}


def in_class(reservation: dict[str, Any]) -> dict[str, Any]:
    return {"capacity": {"mode": "compute-class", "reservation": reservation}}


EMPTY, CHARACTER = "a value, or remove the key", "the text without that character"
ADAPTER = {"name": "legal", "id": "team/legal", "revision": "b" * 40}


@each_row(
    ("sections", "path", "near"),
    [
        ({"server": {"replicas": 5_000}}, "server.replicas", ""),
        ({"server": {"replicas": "12"}}, "server.replicas", ""),
        ({"server": {"name": True}}, "server.name", ""),
        ({"server": {"drainSeconds": 90.0}}, "server.drainSeconds", ""),
        ({"server": {"engine": {"gpuMemoryUtilization": 95}}}, "server.engine.gpuMemoryUtilization", ""),
        ({"server": {"image": {"tag": 0.33}}}, "server.image.tag", ""),
        ({"server": {"image": {"tag": "0.33.0"}}}, "server.image.tag", ""),
        ({"server": {"image": {"tag": "latest"}}}, "server.image.tag", ""),
        ({"spending": {"limit": "$300,000", "then": "warn"}}, "spending.limit", ""),
        ({"gateway": {"enabled": True, "hostname": "https://llm.acme.dev/v1"}}, "gateway.hostname", ""),
        ({"gateway": {"enabled": True, "hostname": "10.0.0.1"}}, "gateway.hostname", ""),
        ({"prices": {"hyperdisk-ml-capacity": -1}}, "prices.hyperdisk-ml-capacity", ""),
        ({"capacity": {"mode": "spot", "usdPerNodeHour": -3}}, "capacity.usdPerNodeHour", ""),
        ({"labels": {"team": 5}}, "labels.team", ""),
        ({"labels": {"team": "A B"}}, "labels.team", ""),
        ({"budget": {"billingAccount": "mine", "usdPerMonth": 5}}, "budget.billingAccount", ""),
        ({"monitoring": {"alerts": True}}, "monitoring.alerts", ""),
        ({"server": {"scaling": {"windows": 3}}}, "server.scaling.windows", ""),
        ({"capacity": {"mode": "flex-start"}}, "capacity.runDurationSeconds", ""),
        ({"capacity": {"mode": "Compute-class"}}, "capacity.mode", "compute-class"),
        ({"capacity": {"mode": "flexstart"}}, "capacity.mode", "flex-start"),
        ({"capacity": {"mode": "free"}}, "capacity.mode", ""),
        ({"capacity": {}}, "capacity.mode", ""),
        ({"cluster": {"releaseChannel": "regular"}}, "cluster.releaseChannel", "REGULAR"),
        ({"machine": "h100"}, "machine", "a3-highgpu-1g"),
        ({"machine": "8x H100"}, "machine", "a3-highgpu-8g"),
        ({"machine": "a4-higgpu-8g"}, "machine", "a4-highgpu-8g"),
        ({"weights": {"sizeGiB": 100}}, "weights.sizeGiB", "sizeGib"),
        ({"servre": {"replicas": 1}}, "servre", "vllm-fleet:server"),
        ({"server": {"engine": {"max_num_seqs": 32}}}, "server.engine.max_num_seqs", "maxNumSeqs"),
        ({"cluster": {"deletion_protection": True}}, "cluster.deletion_protection", "deletionProtection"),
        ({"server": {"profile": "chat"}}, "server.profile", "profile: serve-chat"),
        ({"server": {"profile": "Code"}}, "server.profile", "profile: serve-code"),
        ({"server": {"enabled": True}}, "server.enabled", "one of these keys, or remove it"),
        ({"server": {"engine": {"extraArgs": ["--port=9000"]}}}, "server.engine.extraArgs", "extraArgs: without --port"),
        ({"model": {"id": "Qwen/Qwen3-32B", "revision": "a" * 40, "adapters": [ADAPTER]}}, "model.adapters[0].rank", ""),
        # A key that is named like a mode or like a type of pydantic's keeps its place.
        ({"capacity": {"mode": "calendar"}}, "capacity.reservation", ""),
        (in_class({"name": ""}), "capacity.reservation.name", EMPTY),
        (in_class({"spot": 1, "name": "a"}), "capacity.reservation.spot", "one of these keys, or remove it"),
        ({"capacity": {"mode": "spot", "spot": True}}, "capacity.spot", "one of these keys, or remove it"),
        *(({"labels": {one: 5}}, f"labels.{one}", "") for one in ("int", "str", "none", "literal", "constrained-str")),
        # What no API would take.
        *(({"namespace": one}, "namespace", "") for one in ("kube-system", "default", "gmp-system")),
        ({"capacity": {"mode": "reservation", "name": "a", "project": "example.com:p"}}, "capacity.project", ""),
        ({"gateway": {"pool": ""}}, "gateway.pool", EMPTY),
        ({"gateway": {"pool": "p" * 41}}, "gateway.pool", ""),
        ({"server": {"image": {"repository": ""}}}, "server.image.repository", EMPTY),
        ({"server": {"image": {"tag": "v0.18.1 or newer"}}}, "server.image.tag", ""),
        ({"model": {"id": "org/..", "revision": "a" * 40, "sizeGb": 1.0}}, "model.id", ""),
        ({"labels": {f"label{i}": "" for i in range(63)}}, "labels", ""),
        ({"server": {"engine": {"extraArgs": ["--chat-template=\0"]}}}, "server.engine.extraArgs[0]", CHARACTER),
        ({"benchmark": {"dataset": {"url": "https://h/\0", "sha256": "0" * 64}}}, "benchmark.dataset.url", CHARACTER),
    ],
)  # fmt: skip
def test_a_refusal_names_the_nearest_key_or_value(sections: dict[str, Any], path: str, near: str) -> None:
    assert {one: problem.write for one, problem in refused(**sections).items()} == {path: near}


@each_row(("length", "severity"), [(58, None), (59, "error")])
def test_the_longest_namespace_has_room_for_its_compute_class(length: int, severity: str | None) -> None:
    made = make_settings(namespace="n" * length, capacity={"mode": "compute-class"})
    assert {one.id: one.severity for one in check(made)}.get("namespace-too-long") == severity


@each_row(
    ("channel", "path", "near"),
    [
        ({"type": "sms", "number": 3}, "type", ""),
        ({"number": 3}, "type", ""),
        ({"type": "Slack"}, "type", "slack"),
        ({"type": "email", "address": "x"}, "address", ""),
        ({"type": "pagerduty", "severities": ["pages"]}, "severities[0]", "page"),
    ],
)
def test_each_union_names_its_own_words(channel: dict[str, Any], path: str, near: str) -> None:
    told = refused(monitoring={"alerts": {"channels": [channel]}})[f"monitoring.alerts.channels[0].{path}"]
    assert told.write == near
    assert "on-demand" not in told.allowed


CHANNEL = {"type": "slack", "channel": "https://a:hunter22@b.example/x"}


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        ({"monitoring": {"alerts": {"channels": [CHANNEL]}}}, "slackToken"),
        ({"server": {"image": {"repository": "https://a:hunter22@b.example/x"}}}, "server.apiKeySecret"),
    ],
)
def test_a_secret_is_told_with_the_key_that_takes_it(sections: dict[str, Any], named: str) -> None:
    told = next(one for one in refused(**sections).values() if one.id == "secret-in-plain-text")
    assert named in told.write
    assert "hunter22" not in told.text()


def test_no_part_of_a_secret_in_a_key_is_told() -> None:
    for key in (f"vllm-fleet {CANARIES['url']}", f"vllm-fle{CANARIES['url']}", f"vllm-fleet:{CANARIES['github']}"):
        with pytest.raises(SettingsError) as error:
            parse("x", {**make_config(), key: "1"})
        assert not shown(str(error.value))


@each_row(
    "sections",
    [
        {"zones": ["x y"] * 100_000},
        {"zones": "x" * 100_000},
        {"zones": [None] * 100_000},
        {"labels": {f"x y {i}": "a" for i in range(20_000)}},
        {"budget": {"usdPerMonth": [1] * 100_000}},
        {"server": {"name": list(range(100_000))}},
        {"zones": ["x y"] * 1_900},
        {"zones": [None] * 1_900},
        {"results": {"x" * 3_000: 1}},
        {"server": {"engine": {"x" * 100_000: 1}}},
        {"network": {"nodeCidr": "1" * 100_000}},
        {"machine": "a" * 100_000},
        {"x" * 100_000: 1},
    ],
)
def test_a_refusal_is_short_whatever_is_refused(sections: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as error:
        make_settings(**sections)
    assert len(str(error.value)) < 60_000
    for one in error.value.problems:
        assert len(one.subject) < 400
        assert len(str(one.found)) < 400
        assert len(one.allowed) < 5_000
