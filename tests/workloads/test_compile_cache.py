"""Compile caches in the server's pod: what restores them, what stores them, and what Kubernetes 1.36 says to it."""

from __future__ import annotations

from typing import Any

import pytest

from settings.derived.compile_cache import server_account
from tests.support.as_sent import as_sent
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import server_args
from workloads.server import keep_compile_cache as program
from workloads.server.compile_cache import PATH, KeptCache
from workloads.server.pod import pod_template
from workloads.server.vllm_args import writable_environment

KEPT = KeptCache(bucket="the-bucket", key="0123abcd")


def pod(**sections: Any) -> dict[str, Any]:
    settings = make_settings(server={"compileCache": {"enabled": True}}, **sections)
    args = server_args(settings, compile_cache=KEPT, service_account=server_account(settings))
    spec: dict[str, Any] = as_sent(pod_template(args))["spec"]
    return spec


def options_of(words: list[str]) -> Any:
    python, dash_c, code, *rest = words
    assert (python, dash_c) == ("python3", "-c")
    compile(code, "the program", "exec")
    return program.options_of(rest)


def test_the_pod_is_valid_and_runs_under_its_releases_account() -> None:
    spec = pod()
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "server"}, "spec": spec}
    assert problems(manifest) == []
    assert spec["serviceAccountName"] == server_account(make_settings(server={"compileCache": {"enabled": True}}))


def test_the_server_starts_through_what_restores() -> None:
    (vllm,) = pod()["containers"]
    split = vllm["command"].index("--")
    options = options_of(vllm["command"][:split])
    assert (options.action, options.bucket, options.key, options.cache) == ("restore", "the-bucket", "0123abcd", PATH)
    assert vllm["command"][split + 1 :] in (["vllm", "serve"], ["python3", "-m", "vllm.entrypoints.openai.api_server"])


def test_what_stores_reads_the_caches_and_holds_the_pod_back_until_it_has_tried() -> None:
    spec = pod()
    (saver,) = spec["initContainers"]
    options = options_of(saver["command"])
    assert (options.action, options.bucket, options.key, options.cache) == ("save", "the-bucket", "0123abcd", PATH)
    # Beside the server, and ready when it is done; an init container that ended would hold the server back.
    assert saver["restartPolicy"] == "Always"
    assert saver["readinessProbe"]["exec"]["command"] == ["test", "-f", f"{options.state}/done"]
    mounts = {one["mountPath"]: one.get("readOnly", False) for one in saver["volumeMounts"]}
    assert mounts == {PATH: True, options.state: False}
    (vllm,) = spec["containers"]
    assert options.state not in {one["mountPath"] for one in vllm["volumeMounts"]}
    assert saver["image"] == vllm["image"]


def test_every_cache_of_compiled_files_is_kept_and_nothing_else() -> None:
    """Not the home folder, settings, or what the hub's client keeps: a token, or the weights themselves."""
    folders = {
        one["value"].removeprefix(f"{PATH}/").partition("/")[0]
        for one in writable_environment(PATH)
        if one["value"].startswith(PATH)
    }
    assert folders - set(program.FOLDERS) == {"home", "xdg", "config", "huggingface"}
    assert set(program.FOLDERS) <= folders


@pytest.mark.parametrize("key", ["", "a" * 65])
def test_a_key_that_no_archive_can_hold_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="1 to 64"):
        KeptCache(bucket="b", key=key)
