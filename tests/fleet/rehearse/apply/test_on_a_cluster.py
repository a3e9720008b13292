"""The applier on a real control plane: a small stack up, up again, changed, broken, mended and destroyed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes as k8s
import pytest

from fleet.preview.record.recording import Recording
from fleet.rehearse.api import CONFIG_MAP, DEPLOYMENT, NAMESPACE, NODE, POD, ClusterApi, Manifest
from fleet.rehearse.apply.applier import Applier
from fleet.rehearse.apply.state import AppliedState, ApplyEvent
from fleet.rehearse.clock import Clock
from fleet.rehearse.timeline import Timeline
from tests.fleet.rehearse.apply.programs import deployment_spec, meta, pod_template, recorded
from tests.fleet.rehearse.apply.test_up import names
from tests.fleet.rehearse.control_plane.test_process import within
from workloads import secret_files
from workloads.server.pod import API_KEY_VERSION

if TYPE_CHECKING:
    from fleet.rehearse.apply.state import ApplyReport
    from fleet.rehearse.control_plane.build import Binaries
    from fleet.rehearse.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow

NODES = ("apply-node-0", "apply-node-1")
SELECTOR = {"apply-test": "yes"}
"""Label of this module's nodes: its pods run there and nowhere else, and nobody else's do."""
MANY = 200
"""Config maps made one after the other: a second or two in which an API server can be stopped."""
CAPACITY = {"cpu": "224", "memory": "3968Gi", "pods": "64", "nvidia.com/gpu": "8"}


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[ClusterApi]:
    add_nodes(control_plane.api)
    yield control_plane.api
    for name in NODES:
        control_plane.api.delete(NODE, name)


def add_nodes(api: ClusterApi) -> None:
    for name in NODES:
        api.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": SELECTOR},
                "status": {"capacity": CAPACITY, "allocatable": CAPACITY},
            }
        )


def applier(api: ClusterApi, events: list[ApplyEvent] | None = None, *, slack_seconds: float = 60) -> Applier:
    clock = Clock(60)
    return Applier(
        api,
        clock,
        Timeline(clock),
        chart_objects=lambda _: [],
        on_progress=(lambda _: None) if events is None else events.append,
        slack_seconds=slack_seconds,
    )


def stack(
    space: str,
    *,
    replicas: int = 2,
    content: str = "1",
    image: str = "example.com/image:1",
    gpus: int = 0,
    more: int = 0,
) -> Recording:
    """A namespace with a quota, a config map, a server behind a Service, a Job that depends on it, and `more` config maps."""

    def program(options: Any) -> None:
        whole = k8s.core.v1.Namespace("namespace", metadata=meta(space, None), opts=options())
        quota = k8s.core.v1.ResourceQuota(
            "quota",
            metadata=meta("gpu", space),
            spec={"hard": {"requests.nvidia.com/gpu": "8"}},
            opts=options(depends_on=[whole]),
        )
        k8s.core.v1.Secret(
            "secret",
            metadata=meta("secret", space),
            string_data={"token": pulumi.Output.secret("hush")},
            opts=options(depends_on=[whole]),
        )
        settings = k8s.core.v1.ConfigMap(
            "settings", metadata=meta("settings", space), data={"content": content}, opts=options(depends_on=[whole])
        )
        container: dict[str, Any] = {"image": image}
        if gpus:
            amount = {"nvidia.com/gpu": str(gpus)}
            container["resources"] = {"limits": amount, "requests": amount}
        server = k8s.apps.v1.Deployment(
            "server",
            metadata=meta("server", space),
            spec=deployment_spec("server", replicas, container=container, nodeSelector=SELECTOR),
            opts=options(
                depends_on=[settings, quota], custom_timeouts=pulumi.CustomTimeouts(create="2m", update="10m")
            ),
        )
        k8s.core.v1.Service(
            "service",
            metadata=meta("server", space, skipAwait="true"),
            spec={"selector": {"app": "server"}, "ports": [{"port": 80}]},
            opts=options(depends_on=[whole]),
        )
        job = k8s.batch.v1.Job(
            "job",
            metadata=meta("job", space, replaceUnready="true"),
            spec={"template": pod_template("job", restartPolicy="Never", nodeSelector=SELECTOR)},
            opts=options(depends_on=[server]),
        )
        last: pulumi.Resource = job
        for index in range(more):
            name = f"more-{index}"
            last = k8s.core.v1.ConfigMap(name, metadata=meta(name, space), data={}, opts=options(depends_on=[last]))

    return recorded(program)


ALL = ["cluster", "job", "namespace", "quota", "secret", "server", "service", "settings"]


def clean(report: ApplyReport) -> None:
    assert report.failed == {}
    assert report.findings == ()


def generations(api: ClusterApi, state: AppliedState) -> dict[str, tuple[str, int | None]]:
    found = {}
    for ref in state.objects:
        live = api.get(ref.kind, ref.name, ref.namespace)
        assert live is not None, ref
        found[str(ref)] = live["metadata"]["uid"], live["metadata"].get("generation")
    return found


def owners(live: Manifest) -> list[tuple[str, str]]:
    return [(entry["manager"], entry["operation"]) for entry in live["metadata"]["managedFields"]]


def test_up_again_changed_and_destroyed(api: ClusterApi) -> None:
    space = "apply-life"
    events: list[ApplyEvent] = []
    first = applier(api, events).up(stack(space))
    clean(first)
    assert names(first.created) == ALL
    order = [one.name for one in events if one.phase == "done"]
    assert order.index("ConfigMap/settings") < order.index("Deployment/server") < order.index("Job/job")
    live = api.get(DEPLOYMENT, "server", space)
    assert live is not None
    assert live["status"]["readyReplicas"] == 2  # dependents started only then
    assert [one for one in owners(live) if one[0].startswith("pulumi")] == [("pulumi-kubernetes", "Update")]

    before = generations(api, first.state)
    second = applier(api).up(stack(space), first.state)
    clean(second)
    assert not second.changed
    assert generations(api, second.state) == before

    changed = applier(api).up(stack(space, image="example.com/image:2", content="2"), second.state)
    clean(changed)
    assert names(changed.updated) == ["server"]
    assert names(changed.replaced) == ["settings"]
    live = api.get(DEPLOYMENT, "server", space)
    assert live is not None
    assert live["status"]["updatedReplicas"] == 2
    ((manager, operation),) = (one for one in owners(live) if one[0].startswith("pulumi"))
    assert manager.startswith("pulumi-kubernetes-")
    assert operation == "Apply"
    assert api.list_all(POD, space, label_selector="app=server")
    settings = api.get(CONFIG_MAP, "settings", space)
    assert settings is not None
    assert settings["data"] == {"content": "2"}
    assert generations(api, changed.state)["ConfigMap/settings"][0] != before["ConfigMap/settings"][0]

    gone = applier(api).destroy(changed.state)
    assert gone.failed == {}
    assert gone.unexpected == ()
    assert api.get(NAMESPACE, space) is None


def test_pods_that_the_quota_refuses_are_explained(api: ClusterApi) -> None:
    space = "apply-quota"
    report = applier(api, slack_seconds=6).up(stack(space, replicas=2, gpus=8))
    (found,) = report.findings
    assert names(report.failed) == ["server"]
    assert names(report.skipped) == ["job"]
    assert "1 of 2 pods ready" in found.message
    assert "exceeded quota: gpu" in found.message
    assert "quota" in found.fix

    mended = applier(api).up(stack(space, replicas=1, gpus=8), report.state)
    clean(mended)
    assert names(mended.updated) == ["server"]
    assert names(mended.created) == ["job"]
    assert applier(api).destroy(mended.state).failed == {}


def test_a_misspelt_field_is_refused_and_named(api: ClusterApi) -> None:
    def program(options: Any) -> None:
        k8s.apiextensions.CustomResource(
            "wrong",
            api_version="apps/v1",
            kind="Deployment",
            metadata=meta("wrong", "default"),
            spec={**deployment_spec("wrong"), "replcas": 3},
            opts=options(),
        )

    report = applier(api).up(recorded(program))
    (text,) = report.failed.values()
    assert "spec.replcas" in text
    assert api.get(DEPLOYMENT, "wrong", "default") is None


def test_two_stacks_that_want_one_field_conflict(api: ClusterApi) -> None:
    def program(label: str) -> Any:
        def inner(options: Any) -> None:
            labels = {"owner": label}
            k8s.core.v1.ConfigMap(
                "shared", metadata={**meta("shared", "default"), "labels": labels}, data={}, opts=options()
            )

        return inner

    first = applier(api).up(recorded(program("one"), stack="one"))
    clean(first)
    second = applier(api).up(recorded(program("two"), stack="two"))
    (text,) = second.failed.values()
    assert 'configmaps "shared" already exists' in text
    taken = applier(api).up(recorded(program("two"), stack="two"), upsert_existing=True)
    (text,) = taken.failed.values()
    assert ".metadata.labels.owner" in text
    assert applier(api).destroy(first.state).failed == {}


def scaled(replicas: int | None) -> Recording:
    """A server whose replicas the program sets, or leaves to others."""

    def program(options: Any) -> None:
        spec = deployment_spec("scaled", replicas or 0, nodeSelector=SELECTOR)
        ignored = None
        if replicas is None:
            del spec["replicas"]
            ignored = ["spec.replicas"]
        k8s.apps.v1.Deployment(
            "scaled", metadata=meta("scaled", "default"), spec=spec, opts=options(ignore_changes=ignored)
        )

    return recorded(program)


def test_replicas_left_to_others_stay_and_are_taken_back_only_without_a_conflict(api: ClusterApi) -> None:
    def by_hand(replicas: int) -> None:
        api.patch(DEPLOYMENT, "scaled", "default", {"spec": {"replicas": replicas}}, subresource="scale")

    state = applier(api).up(scaled(1)).state
    left = applier(api).up(scaled(None), state)
    by_hand(2)
    again = applier(api).up(scaled(None), left.state)
    assert not again.changed
    live = api.get(DEPLOYMENT, "scaled", "default")
    assert live is not None
    assert live["spec"]["replicas"] == 2

    refused = applier(api).up(scaled(1), again.state)
    assert 'subresource "scale"' in next(iter(refused.failed.values()))
    assert [one.severity for one in refused.findings] == ["error"]
    by_hand(1)
    clean(applier(api).up(scaled(1), refused.state))
    assert applier(api).destroy(refused.state).failed == {}


def keyed(key: str) -> Recording:
    """A server whose pods read a key once, as the program's do."""

    def program(options: Any) -> None:
        stored = secret_files.stored(
            pulumi.Output.secret(key),
            key="key",
            secret_name="key",
            class_name="none",
            metadata=meta("key", "default"),
            opts=options(),
        )
        spec = deployment_spec("keyed", nodeSelector=SELECTOR)
        spec["template"]["metadata"]["annotations"] = {API_KEY_VERSION: stored.version}
        k8s.apps.v1.Deployment(
            "keyed", metadata=meta("keyed", "default"), spec=spec, opts=options(depends_on=[stored.object])
        )

    return recorded(program)


def test_another_key_rolls_the_pods_and_the_same_one_leaves_them_alone(api: ClusterApi) -> None:
    def pods() -> set[str]:
        found = api.list_all(POD, "default", label_selector="app=keyed")
        return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}

    first = applier(api).up(keyed("one"))
    clean(first)
    before = pods()
    assert not applier(api).up(keyed("one"), first.state).changed
    assert pods() == before
    second = applier(api).up(keyed("two"), first.state)
    clean(second)
    assert within(20, lambda: bool(pods()) and pods().isdisjoint(before))
    assert applier(api).destroy(second.state).failed == {}


def test_an_api_server_that_restarts_in_the_middle_costs_one_more_up(
    binaries: Binaries, quick_stages: list[dict[str, Any]]
) -> None:
    """On a control plane of its own: the session's is not to be restarted under the others."""
    from fleet.rehearse.control_plane.cluster import ControlPlane

    with ControlPlane(binaries, stages=quick_stages) as own:
        add_nodes(own.api)
        recording = stack("apply-restart", more=MANY)
        events: list[ApplyEvent] = []
        reports: list[ApplyReport] = []
        up = threading.Thread(target=lambda: reports.append(applier(own.api, events).up(recording)))
        up.start()
        while not any(one.name == "ConfigMap/more-3" for one in events):
            up.join(0.002)
        own.restart_api_server(down_seconds=0.5)
        up.join(120)
        assert not up.is_alive()
        (first,) = reports
        (text,) = first.failed.values()
        assert "unreachable" in text
        assert first.findings == ()  # that says nothing about the stack
        assert first.skipped

        # The server may have made what it no longer answered for: Pulumi alone would stop at that.
        second = applier(own.api).up(recording, first.state, upsert_existing=True)
        clean(second)
        assert names(second.created) == names([*first.failed, *first.skipped])
        assert not applier(own.api).up(recording, second.state).changed
        found = [one["metadata"]["name"] for one in own.api.list_all(CONFIG_MAP, "apply-restart")]
        assert sorted(found) == sorted(["kube-root-ca.crt", "settings", *(f"more-{index}" for index in range(MANY))])
