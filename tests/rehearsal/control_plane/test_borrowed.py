"""Somebody else's cluster: what is refused (with a stand-in for its API), and a loan from start to end (slow, real)."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rehearsal.api import (
    CONFIG_MAP,
    NAMESPACE,
    NODE,
    POD,
    ApiRefusedError,
    ApiUnreachableError,
    ClusterApi,
    Kind,
    Manifest,
)
from rehearsal.control_plane import borrowed
from rehearsal.control_plane.borrowed import MARKER, BorrowedCluster
from rehearsal.control_plane.build import Binaries
from rehearsal.mirror import Mirror
from rehearsal.results import RehearsalError
from rehearsal.simulation.world import SIMULATED_NODE, is_ready
from tests.rehearsal.control_plane.test_cluster import simulated_node

if TYPE_CHECKING:
    from rehearsal.control_plane.cluster import ControlPlane

NOWHERE = Path("/nonexistent")
NO_PROGRAMS = Binaries(etcd=NOWHERE, api_server=NOWHERE, controller_manager=NOWHERE, scheduler=NOWHERE, kwok=NOWHERE)


@dataclasses.dataclass
class FakeApi:
    """As much of ClusterApi as a loan uses."""

    version: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: {"gitVersion": "v1.33.1", "major": "1", "minor": "33+"}
    )
    forbidden: tuple[str, ...] = ()
    objects: dict[Kind, list[Manifest]] = dataclasses.field(default_factory=dict)
    unreachable: bool = False

    def raw(self, _method: str, path: str) -> Mapping[str, str]:
        if self.unreachable:
            raise ApiUnreachableError("GET /version: connection refused")
        assert path == "/version"
        return self.version

    def list_all(self, kind: Kind, *, label_selector: str = "", field_selector: str = "") -> list[Manifest]:
        assert field_selector or kind != POD or label_selector
        return list(self.objects.get(kind, ()))

    def get(self, kind: Kind, name: str, _namespace: str | None = None) -> Manifest | None:
        return next((one for one in self.objects.get(kind, ()) if one["metadata"]["name"] == name), None)

    def create(self, manifest: Manifest) -> Manifest:
        if manifest["kind"] == "SelfSubjectAccessReview":
            asked = manifest["spec"]["resourceAttributes"]
            return {"status": {"allowed": f"{asked['verb']} {asked['resource']}" not in self.forbidden}}
        self.objects.setdefault(Kind.of(manifest), []).append(manifest)
        return manifest

    def delete(self, kind: Kind, name: str, _namespace: str | None = None, *, grace_seconds: int | None = None) -> bool:
        assert kind != POD or grace_seconds == 0
        self.objects[kind] = [one for one in self.objects[kind] if one["metadata"]["name"] != name]
        return True

    def close(self) -> None:
        pass


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    api = FakeApi()
    monkeypatch.setattr(borrowed.ClusterApi, "from_kubeconfig", lambda *_: api)
    return api


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "kind-kind", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "kind-kind",
    }
    path.write_text(json.dumps(document))
    return path


def node(name: str, provider: str = "", *, simulated: bool = False) -> Manifest:
    annotations = {SIMULATED_NODE: "fake"} if simulated else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"providerID": provider} if provider else {},
    }


def named(name: str, **metadata: Any) -> Manifest:
    return {"metadata": {"name": name, **metadata}}


def borrow(kubeconfig: Path, **options: Any) -> BorrowedCluster:
    return BorrowedCluster(NO_PROGRAMS, kubeconfig, stages=[], **options)


def refusal(kubeconfig: Path, **options: Any) -> str:
    with pytest.raises(RehearsalError) as caught, borrow(kubeconfig, **options):
        pytest.fail("borrowed")
    return str(caught.value)


def test_a_kind_cluster_is_borrowed_and_marked_and_given_back_clean(fake: FakeApi, kubeconfig: Path) -> None:
    fake.objects[NODE] = [node("kind-worker", "kind://docker/kind/kind-worker")]
    with borrow(kubeconfig) as cluster:
        assert fake.get(CONFIG_MAP, MARKER) is not None
        fake.objects[NODE].append(node("a4-1", simulated=True))
        fake.objects[POD] = [named("server-1", namespace="x")]
        assert not cluster.can_restart_api_server
    assert [one["metadata"]["name"] for one in fake.objects[NODE]] == ["kind-worker"]
    assert fake.objects[POD] == []
    assert fake.get(CONFIG_MAP, MARKER) is None


def test_a_cluster_that_does_not_answer_is_named(fake: FakeApi, kubeconfig: Path) -> None:
    fake.unreachable = True
    assert "the cluster of context kind-kind in" in (said := refusal(kubeconfig))
    assert "does not answer" in said


@pytest.mark.parametrize("version", ["v1.33.5-gke.1080000", "v1.30.0-gke.1"])
def test_gke_is_refused(fake: FakeApi, kubeconfig: Path, version: str) -> None:
    fake.version = {**fake.version, "gitVersion": version}
    assert f"is a GKE cluster ({version})" in refusal(kubeconfig)


@pytest.mark.parametrize(("minor", "old"), [("29", True), ("30", False), ("31+", False)])
def test_a_cluster_without_admission_policies_is_refused(
    fake: FakeApi, kubeconfig: Path, minor: str, old: bool
) -> None:
    fake.version = {"gitVersion": f"v1.{minor}.0", "major": "1", "minor": minor}
    if old:
        assert "needs 1.30 or newer" in refusal(kubeconfig)
    else:
        with borrow(kubeconfig):
            pass


def test_lacking_permissions_are_listed(fake: FakeApi, kubeconfig: Path) -> None:
    fake.forbidden = ("create nodes", "create customresourcedefinitions")
    said = refusal(kubeconfig)
    assert "create nodes, create customresourcedefinitions.apiextensions.k8s.io." in said
    assert "cluster-admin" in said


@pytest.mark.parametrize(("provider", "whose"), [("gce://p/z/n", "Google Cloud"), ("aws:///eu/i-1", "AWS")])
def test_machines_of_a_cloud_are_refused(fake: FakeApi, kubeconfig: Path, provider: str, whose: str) -> None:
    fake.objects[NODE] = [node("kind-worker", "kind://x"), node("paid", provider)]
    assert f"node paid of kind-kind is a machine on {whose}" in refusal(kubeconfig)


def test_leftovers_of_a_killed_rehearsal_are_refused_with_the_commands_that_remove_them(
    fake: FakeApi, kubeconfig: Path
) -> None:
    fake.objects = {
        CONFIG_MAP: [{**named(MARKER), "data": {"by": "process 7 on host"}}],
        NODE: [node("a4-1", "gce://project/zone/a4-1", simulated=True)],  # as it says it is
    }
    said = refusal(kubeconfig)
    assert "a rehearsal by process 7 on host is at work on kind-kind, or was killed" in said
    assert f"kubectl delete nodes a4-1 && kubectl --namespace kube-system delete configmap {MARKER}" in said
    assert fake.get(CONFIG_MAP, MARKER) is not None  # not ours to remove
    assert fake.get(NODE, "a4-1") is not None


def test_foreign_simulated_nodes_are_refused(fake: FakeApi, kubeconfig: Path) -> None:
    fake.objects[NODE] = [node(f"kwok-{number}", simulated=True) for number in range(7)]
    assert "has simulated nodes already, which are not ours to play: kwok-0, kwok-1" in refusal(kubeconfig)
    assert len(fake.objects[NODE]) == 7


def test_a_cluster_with_a_kwok_of_its_own_is_refused(fake: FakeApi, kubeconfig: Path) -> None:
    fake.objects[POD] = [named("kwok-controller-0", namespace="kube-system")]
    assert "runs a kwok of its own (pod kube-system/kwok-controller-0)" in refusal(kubeconfig)


def test_a_namespace_the_stack_would_make_is_refused(fake: FakeApi, kubeconfig: Path) -> None:
    fake.objects[NAMESPACE] = [named("vllm")]
    assert "already has the namespace vllm" in refusal(kubeconfig, namespaces=["other", "vllm"])


def test_the_api_server_of_a_borrowed_cluster_is_not_restarted(fake: FakeApi, kubeconfig: Path) -> None:
    assert not fake.unreachable
    with borrow(kubeconfig) as cluster, pytest.raises(RehearsalError, match="without --kubeconfig for that drill"):
        cluster.restart_api_server(3)


def test_what_could_not_be_taken_away_is_told(fake: FakeApi, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def refuse(*_: object, **__: object) -> bool:
        raise ApiRefusedError(500, "InternalError", "etcd is gone")

    with borrow(kubeconfig, progress=said.append):
        monkeypatch.setattr(fake, "delete", refuse)
    assert "simulated nodes may be left in kind-kind (etcd is gone)" in said[-1]


# A loan of a real control plane


@pytest.fixture(scope="module")
def somebodys(binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane without kwok: somebody's cluster."""
    from rehearsal.control_plane.cluster import ControlPlane

    with ControlPlane(binaries, stages=[]) as running:
        yield running


@pytest.mark.slow
def test_simulated_nodes_live_while_borrowed_and_real_ones_are_left_alone(
    somebodys: ControlPlane, binaries: Binaries, quick_stages: list[Manifest]
) -> None:
    api = somebodys.api
    real = simulated_node("real-worker")
    del real["metadata"]["annotations"]
    api.create(real)
    with BorrowedCluster(binaries, somebodys.kubeconfig, stages=quick_stages) as cluster:
        assert cluster.start_seconds < 10
        cluster.api.create(simulated_node("a4-1"))
        with Mirror(cluster.api, NODE) as nodes:
            assert nodes.wait_for(lambda seen: is_ready(seen.get("a4-1") or named("-")), 20)
        pod = {"nodeName": "a4-1", "containers": [{"name": "c", "image": "i"}]}
        cluster.api.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": pod}
        )
        with Mirror(cluster.api, POD, namespace="default") as pods:
            assert pods.wait_for(lambda seen: is_ready(seen.get("p", "default") or named("-")), 20)
        with pytest.raises(RehearsalError, match="is at work on rehearsal, or was killed there"):
            BorrowedCluster(binaries, somebodys.kubeconfig, stages=quick_stages).__enter__()
        time.sleep(1)
        assert not is_ready(api.get(NODE, "real-worker") or {})
    assert [one["metadata"]["name"] for one in api.list_all(NODE)] == ["real-worker"]
    assert api.list_all(POD) == []
    assert api.get(CONFIG_MAP, MARKER, "kube-system") is None
    api.delete(NODE, "real-worker")


@pytest.mark.slow
def test_a_user_without_permissions_is_refused(somebodys: ControlPlane, tmp_path: Path) -> None:
    api = somebodys.api
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "weak", "namespace": "default"}})
    answer = api.raw(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/weak/token",
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    )
    document = json.loads(somebodys.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": answer["status"]["token"]}
    path = tmp_path / "weak"
    path.write_text(json.dumps(document))
    assert "may not do what a rehearsal needs: create nodes, patch nodes/status" in refusal(path)
    document["users"][0]["user"] = {"token": "wrong"}
    path.write_text(json.dumps(document))
    assert "refuses: Unauthorized (HTTP 401)" in refusal(path)


@pytest.mark.slow
def test_a_stopped_cluster_is_unreachable(somebodys: ControlPlane, tmp_path: Path) -> None:
    document = json.loads(somebodys.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    path = tmp_path / "stopped"
    path.write_text(json.dumps(document))
    assert "does not answer" in refusal(path)
    assert ClusterApi.from_kubeconfig(somebodys.kubeconfig).is_ready()
