"""Whatever a stack file, a `config.json` or a flag says: settings, or refusals in words at a key, and no secret in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from facts import ledger
from facts.releases import VERSIONS, find
from settings import strict_yaml
from settings.load import check, parse
from settings.problems import SettingsError
from settings.stack import Settings
from settings.stack_file import read
from tests.fleet.cli.command import SMALL_STACK, project
from tests.inventory import ROOT
from tests.support.canaries import shown
from tests.support.damage import HOSTILE, damaged, damaged_bytes
from tests.support.settings import make_config

ANY = settings(suppress_health_check=[*HealthCheck])
MANY = settings(ANY, max_examples=3 * ANY.max_examples)
"""Where one takes milliseconds."""
FILES = [file.read_bytes().replace(b"your-project-id", b"fleet-tests") for file in sorted(ROOT.glob("Pulumi.*.yaml"))]
CONFIGS = [yaml.safe_load(file)["config"] for file in FILES]
MODELS = [entry["config"] for entry in ledger.section("models", "models").values() if "config" in entry]
LONGEST = 4_000
"""Characters of one problem. Assumed: twice the longest list of allowed values, that of the machine types."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("project"))


def texts(config: dict[str, Any]) -> dict[str, str]:
    """As the engine passes it."""
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}


def parsed(config: dict[str, str], **options: Any) -> Settings | None:
    """None if refused. Any other exception than SettingsError fails the test."""
    found, accepted = (), None
    try:
        accepted = parse("x", config, **options)
        found = check(accepted)
    except SettingsError as error:
        found = error.problems
        assert found
    for one in found:
        assert all((one.subject, one.allowed, one.why)), one
        assert len(one.text()) <= LONGEST, one
        assert not shown(one.text()), one
    return accepted


@MANY
@given(damaged_bytes([SMALL_STACK.encode(), *FILES]))
def test_any_bytes_of_a_stack_file(root: Path, data: bytes) -> None:
    (root / "Pulumi.x.yaml").write_bytes(data)
    try:
        file = read(root, "x")
    except SettingsError as error:
        assert all(one.text() and not shown(one.text()) for one in error.problems)
        return
    accepted = parsed(file.config, unopened=file.unopened)
    if accepted is not None:
        document = strict_yaml.load(data, name="x", stack="x")
        (root / "Pulumi.x.yaml").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
        again = read(root, "x")
        assert parsed(again.config, unopened=again.unopened) == accepted


@ANY
@given(damaged(CONFIGS))
def test_any_value_of_any_key(config: dict[str, Any]) -> None:
    parsed(texts(config))


@MANY
@given(
    damaged(MODELS).map(lambda config: json.dumps(config).encode()) | damaged_bytes([json.dumps(MODELS[0]).encode()])
)
def test_any_config_of_a_model(root: Path, data: bytes) -> None:
    (root / "config.json").write_bytes(data)
    model = {"id": "owner/name", "revision": "a" * 40, "sizeGb": 16.0, "config": str(root / "config.json")}
    parsed(make_config(model=model, server={"replicas": 1, "profile": "serve-chat"}))


OPTIONS = sorted({name for version in VERSIONS for name in find(version).options.spelled})
WORDS = st.tuples(
    st.sampled_from(("--", "--", "-", "", "--no-")), st.sampled_from(OPTIONS), HOSTILE | st.integers(-2, 9)
)
FLAGS = WORDS.flatmap(
    lambda one: st.sampled_from([["".join(one[:2])], ["".join(one[:2]), one[2]], [f"{one[0]}{one[1]}={one[2]}"]])
)
NAMES = st.sampled_from(("LD_PRELOAD", "HF_TOKEN", "VLLM_API_KEY", "NCCL_DEBUG", "A=B", "1A", "")) | HOSTILE.map(str)


@MANY
@given(st.lists(FLAGS, max_size=3), st.dictionaries(NAMES, HOSTILE, max_size=2), st.sampled_from(VERSIONS))
def test_any_flag_and_any_variable(flags: list[list[Any]], env: dict[str, Any], version: str) -> None:
    engine = {"version": version, "extraArgs": [one for words in flags for one in words], "extraEnv": env}
    parsed(make_config(server={"replicas": 1, "profile": "serve-chat", "engine": engine}))
