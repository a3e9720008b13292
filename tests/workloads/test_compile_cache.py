"""Compile caches in the server's pod: what restores them, what stores them, and what Kubernetes 1.36 says to it."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from fleet.preview.record.recording import Recording
from settings.derived.compile_cache import PersistedCache
from settings.stack import Settings
from tests.support.recorded import manifest, needs, objects, recorded_component
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import pod_of, server_args
from workloads.server import compile_cache
from workloads.server import keep_compile_cache as program
from workloads.server.compile_cache import PATH
from workloads.server.server import Server
from workloads.server.vllm_args import writable_environment

PERSISTED = PersistedCache(bucket="the-bucket", key="0123abcd", account="vllm-server-0123abcd")


def pod(**sections: Any) -> dict[str, Any]:
    settings = make_settings(server={"compileCache": {"enabled": True}}, **sections)
    spec: dict[str, Any] = pod_of(server_args(settings, compile_cache=PERSISTED))["spec"]
    return spec


def options_of(container: dict[str, Any]) -> Any:
    """The options with which a container runs its program, which its ConfigMap mounts read-only where the command names it."""
    command = container["command"]
    python, path, *rest = command[: command.index("--")] if "--" in command else command
    folder, _, name = path.rpartition("/")
    assert python == "python3"
    assert name in compile_cache.program()
    mounted = [
        (mount["name"], mount["readOnly"]) for mount in container["volumeMounts"] if mount["mountPath"] == folder
    ]
    assert mounted == [("compile-cache-program", True)]
    return program.options_of(rest)


def test_the_pod_is_valid_and_runs_under_its_releases_account() -> None:
    spec = pod()
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "server"}, "spec": spec}
    assert problems(manifest) == []
    assert spec["serviceAccountName"] == PERSISTED.account


def test_the_server_starts_through_what_restores() -> None:
    (vllm,) = pod()["containers"]
    split = vllm["command"].index("--")
    options = options_of(vllm)
    assert (options.action, options.bucket, options.key, options.cache) == ("restore", "the-bucket", "0123abcd", PATH)
    assert vllm["command"][split + 1 :] in (["vllm", "serve"], ["python3", "-m", "vllm.entrypoints.openai.api_server"])


def test_what_stores_reads_the_caches_and_holds_the_pod_back_until_it_has_tried() -> None:
    spec = pod()
    (saver,) = spec["initContainers"]
    options = options_of(saver)
    assert (options.action, options.bucket, options.key, options.cache) == ("save", "the-bucket", "0123abcd", PATH)
    # Beside the server, and ready when it is done; an init container that ended would hold the server back.
    assert saver["restartPolicy"] == "Always"
    assert saver["readinessProbe"]["exec"]["command"] == ["test", "-f", f"{options.state}/done"]
    assert [mount["mountPath"] for mount in saver["volumeMounts"] if not mount.get("readOnly")] == [options.state]
    (vllm,) = spec["containers"]
    assert options.state not in {one["mountPath"] for one in vllm["volumeMounts"]}
    assert saver["image"] == vllm["image"]


def recorded(name: str = "server") -> Recording:
    def build(settings: Settings, opts: pulumi.ResourceOptions) -> None:
        Server(name, server_args(settings, compile_cache=PERSISTED), opts)

    return recorded_component(build)


def test_a_canarys_account_stays_the_same_resource_when_the_servers_take_its_release_over() -> None:
    account = f"ServiceAccount/{PERSISTED.account}"
    assert objects(recorded("server-canary"))[account].urn == objects(recorded())[account].urn


def test_the_pods_wait_for_their_program_and_a_new_one_restarts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def mounted_and_made() -> tuple[str, str]:
        recording = recorded()
        deployment = objects(recording)["Deployment/qwen35-server"]
        (config_map,) = (name for name in needs(recording, deployment) if name.startswith("ConfigMap/"))
        volumes = manifest(deployment)["spec"]["template"]["spec"]["volumes"]
        (mounted,) = (volume["configMap"]["name"] for volume in volumes if "configMap" in volume)
        made = manifest(objects(recording)[config_map])
        assert made["immutable"] is True
        assert made["data"] == compile_cache.program()
        return mounted, made["metadata"]["name"]

    before = mounted_and_made()
    monkeypatch.setattr(compile_cache, "program", lambda: {"keep_compile_cache.py": "print()"})
    after = mounted_and_made()
    assert before[0] == before[1] != after[0] == after[1]


def test_every_cache_of_compiled_files_is_kept_and_nothing_else() -> None:
    """Not the home folder, settings, or what the hub's client keeps: a token, or the weights themselves."""
    folders = {
        one["value"].removeprefix(f"{PATH}/").partition("/")[0]
        for one in writable_environment(PATH)
        if one["value"].startswith(PATH)
    }
    assert folders - set(program.FOLDERS) == {"home", "xdg", "config", "huggingface"}
    assert set(program.FOLDERS) <= folders
