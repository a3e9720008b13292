"""The servers' default name, which follows from the model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from facts.models import CATALOGUE
from facts.names import CANARY_ENDING, MAX_SERVER_NAME, own_server_name, server_name
from settings.profiles import NAMES
from tests.settings.checks.test_parsers import own
from tests.support.rows import each_row
from tests.support.settings import make_settings


@each_row(
    ("model", "name"),
    [
        ("Qwen/Qwen3.5-27B-FP8", "qwen35-server"),
        ("nvidia/Qwen3.5-397B-A17B-NVFP4", "qwen35-server"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-31-8b-instruct-server"),
        ("acme/qwen3.5-27b-support", "qwen35-27b-support-server"),
        ("acme/Support_Bot.v2", "support-botv2-server"),
        ("acme/8b", "m-8b-server"),
        ("acme/___", "m-server"),
        ("acme/vllm-benchmark", "vllm-benchmark-server"),
        ("acme/" + "long-" * 18 + "name", "long-long-long-long-long-l-server"),
    ],
)
def test_a_name_is_made_of_the_repositorys(model: str, name: str) -> None:
    assert server_name(model) == name


@each_row("model", [*CATALOGUE, "a/-", "a/" + "x" * 96, "a/9" + "-.-" * 20])
def test_every_name_is_a_label_that_leaves_room_for_the_canary(model: str) -> None:
    name = own_server_name(server_name(model))
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert len(name + CANARY_ENDING) <= MAX_SERVER_NAME


@each_row("profile", NAMES)
def test_every_profile_serves_under_the_articles_name(profile: str) -> None:
    pinned = {"id": "nvidia/Qwen3.5-397B-A17B-NVFP4", "revision": "a" * 40} if profile == "397b-nvfp4" else None
    assert make_settings(server={"profile": profile}, model=pinned).server.name == "qwen35-server"


@each_row(
    ("server", "name"),
    [(None, "support-8b-server"), ({"replicas": 2}, "support-8b-server"), ({"name": "chat"}, "chat")],
)
def test_a_stack_file_may_name_them(tmp_path: Path, server: dict[str, Any] | None, name: str) -> None:
    canary = {"canary": {"model": {"revision": "b" * 40}}}
    settings = make_settings(model=own(tmp_path), server=server, rollout=canary)
    assert settings.server.name == settings.without_canary.server.name == name
    assert settings.as_canary is not None
    assert settings.as_canary.server.name == f"{name}-canary"
    assert server is None or settings.server.model_fields_set == server.keys()
