"""Secrets in a stack file are refused and never shown: canaries stand in every place that the schema knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from facts.secrets_in_text import looks_drawn, looks_secret, without_secrets
from fleet.cli.exits import error_text
from fleet.preview.report.several_stacks import Refusal, preview_each
from settings.load import check, parse
from settings.problems import SettingsError
from settings.stack_file import read
from tests.support.canaries import CANARIES, shown
from tests.support.formats import in_every_format
from tests.support.rows import each_row
from tests.support.settings import BASE, make_config

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "settings" / "stack.schema.json").read_text(encoding="utf-8"))
NAMED = "correct-horse"
"""A secret without any form: nothing but the key beside it says what it is."""


def plantings(known: dict[str, Any], canary: str, seen: set[str]) -> Iterator[Any]:
    """Values of about this shape, each with the canary in one place: as any value, item, key, and key that is unknown.

    What a definition of `seen` holds is planted elsewhere.
    """
    yield canary
    if "$ref" in known:
        name = known["$ref"].rpartition("/")[2]
        if name in seen:
            return
        seen.add(name)
        known = SCHEMA["$defs"][name]
    for branch in (*known.get("anyOf", ()), *known.get("oneOf", ())):
        yield from plantings(branch, canary, seen)
    if "items" in known:
        yield from ([one] for one in plantings(known["items"], canary, seen))
    properties = known.get("properties", {})
    always = {name: one["const"] for name, one in properties.items() if "const" in one and name == "mode"}
    for name, one in properties.items():
        yield from ({**always, name: planted} for planted in plantings(one, canary, seen))
    if known.get("type") == "object":
        yield {**always, canary: 1}
        yield {**always, "apiKey": {"deeper": [canary]}}
    if isinstance(known.get("additionalProperties"), dict):
        yield from ({"name": planted} for planted in plantings(known["additionalProperties"], canary, seen))


def stack_files(canary: str) -> Iterator[dict[str, Any]]:
    """The configuration of a small valid stack with the canary in one place."""
    base = {"gcp:project": "fleet-tests", "gcp:region": "europe-west4"}
    base |= {f"vllm-fleet:{key}": value for key, value in BASE.items()}
    seen: set[str] = set()
    for key, known in SCHEMA["properties"]["config"]["properties"].items():
        yield from ({**base, key: planted} for planted in plantings(known, canary, seen))
    yield {**base, f"vllm-fleet:{canary}": 1}
    yield {**base, "vllm-fleet:apikey": canary}


def one_canary_in_each_place() -> list[dict[str, Any]]:
    """A stack file for each place, with the forms of secrets in turn: what a secret looks like is judged apart from its place."""
    by_form = [list(stack_files(canary)) for canary in CANARIES.values()]
    files = [by_form[place % len(by_form)][place] for place in range(len(by_form[0]))]
    assert len(files) > 350
    return files


def refusal(root: Path, text: str) -> Refusal:
    """What a preview of all stacks makes of a stack file that cannot be used."""
    (root / "Pulumi.x.yaml").write_text(text, encoding="utf-8")

    raised: list[SettingsError] = []

    def preview(stack: str) -> Any:
        config = read(root, stack).config
        try:
            check(parse(stack, config))
        except SettingsError as error:
            raised.append(error)
            raise
        raise AssertionError(f"nothing is refused in {text}")

    [outcome] = preview_each(["x"], preview, error_text)
    assert isinstance(outcome, Refusal)
    for error in raised:  # as the program itself shows it
        assert not shown(str(error)), text
        assert not shown(repr(error.problems)), text
    return outcome


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: vllm-fleet\nruntime: python\n")
    return tmp_path


def test_a_canary_in_any_place_of_a_stack_file_is_refused_and_shown_in_no_format(root: Path) -> None:
    refused = [refusal(root, json.dumps({"config": one})) for one in one_canary_in_each_place()]
    for name, text in in_every_format(*refused).items():
        assert not shown(text), name


@each_row(
    "sections",
    [
        {"server": {"engine": {"extraEnv": {"HF_TOKEN": NAMED}}}},
        {"server": {"engine": {"extraEnv": {"GITHUB_PAT": NAMED}}}},
        {"server": {"engine": {"extraEnv": {"AWS_SECRET_ACCESS_KEY": NAMED}}}},
        {"server": {"engine": {"extraEnv": {"AWS_ACCESS_KEY_ID": NAMED}}}},
        {"server": {"engine": {"extraEnv": {"OTEL_EXPORTER_OTLP_HEADERS": f"api-key={NAMED}"}}}},
        {"server": {"engine": {"extraEnv": {"PGPASSWORD": NAMED}}}},
        {"server": {"engine": {"extraArgs": [f"--api-key={NAMED}"]}}},
        {"server": {"engine": {"extraArgs": ["--api-key", NAMED]}}},
        {"server": {"engine": {"extraArgs": [f"--otlp-password={NAMED}"]}}},
        {"server": {"engine": {"extraEnv": {"PGPASS": NAMED}}}},
        {"server": {"engine": {"extraEnv": {"S3_KEY": NAMED}}}},
        {"server": {"engine": {"extraEnv": {"SESSION_COOKIE": NAMED}}}},
        {"benchmark": {"dataset": f"https://h.example/x?password={NAMED}"}},
        {"server": {"apiKey": NAMED}},
        {"server": {"apiKeySecret": f"{NAMED} battery"}},
        {"server": {"apiKeySecret": 123456789}},
        {"server": {"auth": {"apiKeys": [{"for": NAMED}]}}},
        {"server": {"apiKey": f"$ecret-{NAMED}"}},
        {"weights": {"token": NAMED}},
        {"weights": {"tokenSecret": [NAMED]}},
        {"gateway": {"clientSecret": NAMED}},
    ],
)
def test_what_its_key_calls_a_secret_is_refused_and_not_shown(sections: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as refused:
        parse("x", make_config(**sections))
    assert not any(secret in str(refused.value) for secret in ("correct", "battery", "123456789"))


@pytest.mark.parametrize(
    "text",
    [
        "config:\n  vllm-fleet:apiKey: 0123456\n",
        "config:\n  vllm-fleet:server:\n    apiKey: 0123456\n",
        "config:\n  vllm-fleet:apiKey: *a0123456\n",
        "config:\n  vllm-fleet:apiKey: !a0123456 x\n",
        "config:\n  vllm-fleet:apiKey: {secure: 0123456\n",
        "vllm-fleet:apiKey=a0123456\n",
        "- apiKey a0123456\n",
        "config: apiKey a0123456\n",
    ],
)
def test_a_file_that_is_refused_before_its_keys_are_read_shows_no_secret(root: Path, text: str) -> None:
    assert "0123456" not in refusal(root, text).message


def test_a_value_where_the_name_of_a_secret_belongs_is_refused_as_such() -> None:
    drawn = "9f8a7d6e5c4b3a29" * 2
    for section, key in (("server", "apiKeySecret"), ("weights", "tokenSecret")):
        with pytest.raises(SettingsError) as refused:
            parse("x", make_config(**{section: {key: drawn}}))
        [problem] = refused.value.problems
        assert (problem.subject, problem.found) == (f"vllm-fleet:{section}.{key}.name", "[secret]")
        assert drawn not in str(refused.value)
        named = parse("x", make_config(**{section: {key: "hf_token-production-2026"}}))
        assert "hf_token-production-2026" in repr(named)


@each_row(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("TOKENIZER", "Qwen/Qwen3.5-27B-FP8"),
        ("MAX_TOKENS", "512"),
        ("tokens-per-second", "95317"),
        ("EOS_TOKEN", "<|im_end|>"),
        ("HF_TOKEN_PATH", "/var/run/secrets/hf-token/token"),
        ("VLLM_API_KEY", "$(KEY)"),
        ("HF_TOKEN", ""),
        ("VLLM_BYPASS", "correct"),
        ("secretName", "hf-token"),
        ("PATH", "/usr/bin:/opt/qwen3.5/2026/bin"),
        ("project", "sk-hynix-inference-production-1"),
        ("url", "https://example.com/requests.jsonl?alt=media"),
        ("image", "vllm/vllm-openai@sha256:" + "0f1e2d3c" * 8),
        ("revision", "0f1e2d3c" * 5),
        ("billingAccount", "01ABCD-234567-89EFAB"),
        ("id", "Qwen/Qwen3.5-27B-FP8"),
        ("automountServiceAccountToken", False),
    ],
)
def test_what_only_sounds_like_a_secret_is_shown(name: str, value: Any) -> None:
    assert not looks_secret(name, value)
    assert without_secrets(f"{name}: {value}") == f"{name}: {value}"


def test_a_name_that_a_person_gave_does_not_look_drawn() -> None:
    for name in ("hf-token", "vllm-api-key-prod-2026", "huggingfacetokenproduction2026", "team7_cluster12_key"):
        assert not looks_drawn(name)
