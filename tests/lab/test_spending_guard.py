"""The spending guard on a real API server: its own program with its account's rights, the quota of a pause, and what `edit` may not do."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from facts.names import spending_namespace
from fleet.preview.offline import open_stack, record_stack
from lab.control_plane.api import CONFIG_MAP, DEPLOYMENT, POD, ApiRefusedError, ClusterApi, Kind, Manifest
from lab.stage.variants import varied
from tests.lab.shapes import ROOT
from tests.support.waiting import within
from workloads.names import SPENDING_APP
from workloads.spending.guard import QUOTA, ROLE
from workloads.spending.total import STATE, Sum
from workloads.spending.verdict import GPU

if TYPE_CHECKING:
    from lab.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow
SPACE, HOME = "guarded", spending_namespace("guarded")
LIMIT: Final = 1000
RESOURCE_QUOTA: Final = Kind("v1", "ResourceQuota")
SERVICE_ACCOUNT: Final = Kind("v1", "ServiceAccount")
RBAC: Final = "rbac.authorization.k8s.io"
PLAIN: Final[Manifest] = {
    "name": "main",
    "image": "none",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
SAFE: Final[Manifest] = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
"""What the namespace's pod security asks for."""
PARTS = {"Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ConfigMap"}


@pytest.fixture(scope="module")
def objects() -> list[Manifest]:
    """The dev stack's, with a ComputeClass, whose guard reads nodes, too."""
    sections = {
        "namespace": SPACE,
        "spending": {"limit": LIMIT, "then": "pause"},
        "capacity": {"mode": "compute-class", "usdPerNodeHour": 40},
        "benchmark": {"enabled": False},
    }
    recording = record_stack(varied(open_stack(ROOT, "dev"), sections), "known")
    return [dict(one.inputs) for one in recording.resources if one.type.startswith("kubernetes:")]


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane, objects: list[Manifest]) -> Iterator[ClusterApi]:
    """The cluster with all of the guard but its pod, servers of one GPU each, and a user with the role `edit`."""
    made = [one for one in objects if one["kind"] in PARTS and _is_the_guards(one)]
    labels = {"app": "gpus"}
    container = {**PLAIN, "resources": {"limits": {GPU: "1"}}}
    template = {"metadata": {"labels": labels}, "spec": {"securityContext": SAFE, "containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "replicas": 2, "template": template}
    binding: Manifest = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding"}
    binding["metadata"] = {"name": "editor", "namespace": SPACE}
    binding["roleRef"] = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": "editor", "namespace": SPACE}]
    made += [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "editor", "namespace": SPACE}},
        binding,
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gpus", "namespace": SPACE}, "spec": spec},
    ]
    for one in sorted(made, key=lambda one: one["kind"] != "Namespace"):
        control_plane.api.apply(one)
    yield control_plane.api
    for one in made:
        if "namespace" not in one["metadata"]:
            control_plane.api.delete(Kind.of(one), one["metadata"]["name"])


def _is_the_guards(one: Manifest) -> bool:
    metadata = one["metadata"]
    return SPENDING_APP in (metadata["name"], (metadata.get("labels") or {}).get("app")) or (
        one["kind"] == "Namespace" and metadata["name"] in (SPACE, HOME)
    )


def token_of(api: ClusterApi, name: str, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    return str(api.raw("POST", path, body={"spec": {}})["status"]["token"])


@contextlib.contextmanager
def guard(control_plane: ControlPlane, objects: list[Manifest], folder: Path, usd: float) -> Iterator[None]:
    """The guard as its pod runs it, where a guard before it has stored this sum."""
    api = control_plane.api
    stored = (api.get(CONFIG_MAP, STATE, HOME) or {}).get("data") or {"state": Sum().text()}
    state = {**json.loads(stored["state"]), "usd": usd, "at": time.time()}
    api.patch(CONFIG_MAP, STATE, HOME, {"data": {"state": json.dumps(state)}})
    cluster = json.loads(control_plane.kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
    folder.mkdir()
    (folder / "token").write_text(token_of(api, SPENDING_APP, HOME))
    shutil.copy(cluster["certificate-authority"], folder / "ca.crt")
    (deployment,) = (one for one in objects if one["kind"] == "Deployment" and one["metadata"]["name"] == SPENDING_APP)
    words = deployment["spec"]["template"]["spec"]["containers"][0]["command"]
    command = [sys.executable, *words[words.index("-c") :], f"--api={cluster['server']}"]
    command += [f"--account={folder}", f"--alive={folder / 'turn'}"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.kill()


def gpu_pods(api: ClusterApi) -> list[str]:
    return [one["metadata"]["uid"] for one in api.list_all(POD, SPACE, label_selector="app=gpus")]


def hidden(how: str) -> Manifest:
    """A pod whose GPU is asked for by a container that runs beside or before the others."""
    other = {**PLAIN, "name": "other", "resources": {"limits": {GPU: "1"}}}
    other |= {"restartPolicy": "Always"} if how == "sidecar" else {}
    metadata = {"name": f"hidden-{len(how)}", "namespace": SPACE}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"securityContext": SAFE, "containers": [PLAIN], "initContainers": [other]},
    }


def refusal(attempt: Callable[[], object]) -> str:
    """The message of a refusal; empty where it succeeds."""
    try:
        attempt()
    except ApiRefusedError as refused:
        return refused.message
    return ""


def test_at_the_limit_its_rights_and_a_quota_pause_the_gpus_and_below_it_they_come_back(
    control_plane: ControlPlane, api: ClusterApi, objects: list[Manifest], tmp_path: Path
) -> None:
    assert within(30, lambda: len(gpu_pods(api)) == 2)
    with guard(control_plane, objects, tmp_path / "over", 2.0 * LIMIT):
        assert within(60, lambda: not gpu_pods(api)), (tmp_path / "over" / "log").read_text()
    (owner,) = (api.get(RESOURCE_QUOTA, QUOTA, SPACE) or {})["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Role", ROLE)
    for how in ("sidecar", "init container"):
        assert "exceeded quota: spending-pause" in refusal(lambda how=how: api.create(hidden(how)))  # type: ignore[misc]
    with guard(control_plane, objects, tmp_path / "anew", 0.0):
        assert within(60, lambda: api.get(RESOURCE_QUOTA, QUOTA, SPACE) is None), (
            tmp_path / "anew" / "log"
        ).read_text()
        assert within(60, lambda: len(gpu_pods(api)) == 2)


def test_a_user_with_the_role_edit_can_neither_stop_it_nor_change_its_sum(
    control_plane: ControlPlane, api: ClusterApi, tmp_path: Path
) -> None:
    config: dict[str, Any] = json.loads(control_plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token_of(api, "editor", SPACE)}
    own = tmp_path / "kubeconfig"
    own.write_text(json.dumps(config))
    with contextlib.closing(ClusterApi.from_kubeconfig(own)) as user:
        assert within(20, lambda: not refusal(lambda: user.list_all(POD, SPACE))), "the role holds in its own namespace"
        attempts: dict[str, Callable[[], object]] = {
            "change the sum": lambda: user.patch(CONFIG_MAP, STATE, HOME, {"data": {"state": '{"usd": 0}'}}),
            "delete the sum": lambda: user.delete(CONFIG_MAP, STATE, HOME),
            "delete the guard": lambda: user.delete(DEPLOYMENT, SPENDING_APP, HOME),
            "delete its pods": lambda: user.delete(POD, SPENDING_APP, HOME),
            "delete its account": lambda: user.delete(SERVICE_ACCOUNT, SPENDING_APP, HOME),
            "take its token": lambda: token_of(user, SPENDING_APP, HOME),
            "delete its role": lambda: user.delete(Kind(f"{RBAC}/v1", "Role"), ROLE, SPACE),
            "delete its binding": lambda: user.delete(Kind(f"{RBAC}/v1", "RoleBinding"), ROLE, SPACE),
            "delete the quota": lambda: user.delete(RESOURCE_QUOTA, QUOTA, SPACE),
            "raise the quota": lambda: user.patch(
                RESOURCE_QUOTA, QUOTA, SPACE, {"spec": {"hard": {f"requests.{GPU}": "9"}}}
            ),
        }
        assert [what for what, attempt in attempts.items() if "cannot" not in refusal(attempt)] == []
