"""The key of compile caches: equal for pods that may run each other's compiled files, and for no others."""

from __future__ import annotations

from typing import Any

import pytest

from settings.derived.compile_cache import cache_key, server_account
from tests.support.settings import make_settings

KEPT = {"compileCache": {"enabled": True}}
REVISION = "0123456789abcdef0123456789abcdef01234567"


def key(server: dict[str, Any] | None = None, **sections: Any) -> str | None:
    return cache_key(make_settings(server=KEPT | (server or {}), **sections))


def test_nothing_is_kept_unless_it_is_asked_for() -> None:
    assert cache_key(make_settings()) is None
    assert server_account(make_settings()) == "vllm-server"


def test_an_account_is_named_after_its_key() -> None:
    settings = make_settings(server=KEPT)
    assert server_account(settings) == f"vllm-server-{str(cache_key(settings))[:12]}"


@pytest.mark.parametrize(
    "other",
    [
        {"server": {"image": {"digest": "sha256:" + "0" * 64}}},
        {"server": {"engine": {"maxNumSeqs": 256}}},
        {"server": {"engine": {"yarn": {"factor": 2.0}, "maxModelLen": 524_288}}},
        {"server": {"engine": {"extraEnv": {"VLLM_DISABLE_COMPILE_CACHE": "1"}}}},
        {"server": {"profile": "serve-chat"}},
        {"model": {"id": "Qwen/Qwen3.5-27B-FP8", "revision": REVISION, "sizeGb": 29}},
        {"weights": {"source": "huggingface"}},
        {"server": {"rankPorts": True}},
    ],
    ids=["image", "engine", "longer context", "environment", "profile", "revision", "path of the model", "folders"],
)
def test_what_bears_on_compilation_makes_another_key(other: dict[str, Any]) -> None:
    assert key(**other) != key()


@pytest.mark.parametrize(
    "same",
    [
        {"server": {"replicas": 3}},
        {"capacity": {"mode": "flex-start", "runDurationSeconds": 86_400}},
        {"zones": ["europe-west4-a"]},
    ],
    ids=["replicas", "capacity", "zones"],
)
def test_what_does_not_keeps_the_key(same: dict[str, Any]) -> None:
    assert key(**same) == key()
