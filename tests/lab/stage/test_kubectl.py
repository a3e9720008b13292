"""A halt with the rehearsal's kubectl: what `fleet rollout halt` asks of a cluster is what it does."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fleet.clients.errors import LiveError
from fleet.rollout.soak import halt_in_cluster
from lab.control_plane.api import ClusterApi
from lab.stage.kubectl import RehearsedKubectl
from tests.lab.providers.kubernetes.fake_cluster import FakeCluster
from tests.support.settings import make_settings

SETTINGS = make_settings(gateway={"enabled": True}, rollout={"canary": {"engine": {"seed": 1}, "weight": 5}})
POOL, CANARY_POOL = SETTINGS.gateway.pool, f"{SETTINGS.gateway.pool}-canary"
PULUMI = "pulumi-kubernetes-1234abcd"


def kubectl(cluster: FakeCluster) -> RehearsedKubectl:
    return RehearsedKubectl(cast(ClusterApi, cluster), SETTINGS.namespace)


def route() -> dict[str, Any]:
    backends = [{"name": POOL, "weight": 95}, {"name": CANARY_POOL, "weight": 5}]
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {
            "name": POOL,
            "namespace": SETTINGS.namespace,
            "managedFields": [{"manager": PULUMI, "operation": "Apply"}],
        },
        "spec": {"rules": [{"backendRefs": backends}]},
    }


def test_a_halt_changes_the_weights_as_pulumis_manager() -> None:
    cluster = FakeCluster()
    cluster.apply(route())
    assert halt_in_cluster(kubectl(cluster), SETTINGS)
    [changed] = cluster.objects.values()
    assert [one["weight"] for one in changed["spec"]["rules"][0]["backendRefs"]] == [100, 0]
    assert cluster.managers == {f"HTTPRoute/{POOL}": PULUMI}


def test_without_the_route_a_halt_fails_as_with_kubectl() -> None:
    with pytest.raises(LiveError) as refused:
        halt_in_cluster(kubectl(FakeCluster()), SETTINGS)
    assert refused.value.reason == "not found"


@pytest.mark.parametrize("arguments", [("delete", "pod", "a"), ("get", "pods"), ("apply", "--filename=-")])
def test_other_commands_are_not_rehearsed(arguments: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=arguments[0]):
        kubectl(FakeCluster()).run(*arguments, what="a test", stdin="{}")
