"""What can be told before an apply begins: a program with one mistake, and the finding that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest

from tests.fleet.rehearse.apply.programs import (
    NAMESPACE,
    deployment_spec,
    findings,
    meta,
    namespace,
    pod_template,
    said,
)

Options = Callable[..., pulumi.ResourceOptions]


def claim_spec(class_name: str | None = "weights", **spec: Any) -> dict[str, Any]:
    return {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "64Gi"}},
        **({} if class_name is None else {"storageClassName": class_name}),
        **spec,
    }


def storage_class(
    options: Options, mode: str, provisioner: str = "pd.csi.storage.gke.io"
) -> k8s.storage.v1.StorageClass:
    return k8s.storage.v1.StorageClass(
        "class", metadata=meta("weights", None), provisioner=provisioner, volume_binding_mode=mode, opts=options()
    )


def test_a_sound_program_has_no_findings() -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        chosen = storage_class(options, "WaitForFirstConsumer")
        claim = k8s.core.v1.PersistentVolumeClaim(
            "claim", metadata=meta("claim"), spec=claim_spec(), opts=options(depends_on=[space, chosen])
        )
        volumes = [{"name": "weights", "persistentVolumeClaim": {"claimName": "claim"}}]
        server = k8s.apps.v1.Deployment(
            "server",
            metadata=meta("server"),
            spec=deployment_spec("server", volumes=volumes),
            opts=options(depends_on=[claim]),
        )
        k8s.core.v1.Service(
            "service",
            metadata=meta("service"),
            spec={"selector": {"app": "server"}, "ports": [{"port": 80}]},
            opts=options(depends_on=[server]),
        )

    assert findings(program) == ()


# Order


def test_one_object_declared_twice() -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        for name in ("first", "second"):
            k8s.core.v1.ConfigMap(name, metadata=meta("same"), data={}, opts=options(depends_on=[space]))

    (found,) = findings(program)
    assert found.severity == "error"
    assert "ConfigMap/same in apply-test is declared by first and second" in found.message


def test_a_resource_that_does_not_depend_on_its_namespace() -> None:
    def program(options: Options) -> None:
        namespace(options)
        k8s.core.v1.ConfigMap("early", metadata=meta("early"), data={}, opts=options())

    (found,) = findings(program)
    assert found.severity == "error"
    assert "does not depend on it" in found.message
    assert "depends_on" in found.fix


def test_the_namespaces_output_is_a_dependency() -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        k8s.core.v1.ConfigMap(
            "late", metadata={"name": "late", "namespace": space.metadata.name}, data={}, opts=options()
        )

    assert findings(program) == ()


def test_a_namespace_that_nobody_creates_is_a_warning() -> None:
    def program(options: Options) -> None:
        k8s.core.v1.ConfigMap("lost", metadata=meta("lost", "elsewhere"), data={}, opts=options())
        k8s.core.v1.ConfigMap("home", metadata=meta("home", "default"), data={}, opts=options())

    (found,) = findings(program)
    assert found.severity == "warning"
    assert "namespace elsewhere, which the program does not create" in found.message


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "v", "configMap": {"name": "needed"}}]},
        {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "needed"}}]}}]},
        {"container": {"envFrom": [{"configMapRef": {"name": "needed"}}]}},
        {"container": {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "needed", "key": "a"}}}]}},
    ],
)
def test_pods_that_use_what_they_do_not_depend_on(spec: dict[str, Any]) -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        k8s.core.v1.ConfigMap("needed", metadata=meta("needed"), data={}, opts=options(depends_on=[space]))
        k8s.apps.v1.Deployment(
            "server", metadata=meta("server"), spec=deployment_spec("server", **spec), opts=options(depends_on=[space])
        )

    (found,) = findings(program)
    assert found.severity == "warning"
    assert "the pods of Deployment/server use ConfigMap/needed" in found.message


def test_an_optional_config_map_may_come_late() -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        k8s.core.v1.ConfigMap("needed", metadata=meta("needed"), data={}, opts=options(depends_on=[space]))
        volumes = [{"name": "v", "configMap": {"name": "needed", "optional": True}}]
        spec = deployment_spec("server", volumes=volumes)
        k8s.apps.v1.Deployment("server", metadata=meta("server"), spec=spec, opts=options(depends_on=[space]))

    assert findings(program) == ()


def test_two_that_wait_for_each_other() -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        spec = deployment_spec("server", serviceAccountName="account")
        server = k8s.apps.v1.Deployment("server", metadata=meta("server"), spec=spec, opts=options(depends_on=[space]))
        k8s.core.v1.ServiceAccount("account", metadata=meta("account"), opts=options(depends_on=[server]))

    (found,) = findings(program)
    assert found.severity == "error"
    assert "both wait for ever" in found.message


# Claims


@pytest.mark.parametrize(("mode", "severity"), [("WaitForFirstConsumer", "error"), ("Immediate", "warning")])
def test_a_claim_that_does_not_depend_on_its_class(mode: str, severity: str) -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        storage_class(options, mode)
        k8s.core.v1.PersistentVolumeClaim(
            "claim", metadata=meta("claim"), spec=claim_spec(), opts=options(depends_on=[space])
        )

    (found,) = findings(program)
    assert found.severity == severity
    assert "is of class weights but does not depend on it" in found.message
    assert found.fix == "name StorageClass/weights in depends_on"


def test_a_class_that_nobody_brings() -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        k8s.core.v1.PersistentVolumeClaim(
            "claim", metadata=meta("claim"), spec=claim_spec("hyperdisk"), opts=options(depends_on=[space])
        )

    (found,) = findings(program)
    assert "class hyperdisk, which the program does not create" in found.message


SOURCE = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "image"}


@pytest.mark.parametrize(
    ("annotations", "depends", "message"),
    [
        ({"waitFor": "jsonpath={.status.readyToUse}=true"}, True, ""),
        ({}, True, "counts as done when it is accepted"),
        ({"waitFor": "jsonpath={.status.readyToUse}=true"}, False, "but does not depend on it"),
    ],
)
def test_a_claim_that_is_filled_from_a_snapshot(annotations: dict[str, str], depends: bool, message: str) -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        chosen = storage_class(options, "Immediate")
        image = k8s.apiextensions.CustomResource(
            "image",
            api_version="snapshot.storage.k8s.io/v1",
            kind="VolumeSnapshot",
            metadata=meta("image", **annotations),
            spec={},
            opts=options(depends_on=[space]),
        )
        needs = [space, chosen, *([image] if depends else [])]
        k8s.core.v1.PersistentVolumeClaim(
            "claim", metadata=meta("claim"), spec=claim_spec(dataSource=SOURCE), opts=options(depends_on=needs)
        )

    found = findings(program)
    assert [message in one.message for one in found] == ([True] if message else [])


def test_a_timeout_of_a_claim_does_nothing() -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        chosen = storage_class(options, "Immediate")
        k8s.core.v1.PersistentVolumeClaim(
            "claim",
            metadata=meta("claim"),
            spec=claim_spec(),
            opts=options(depends_on=[space, chosen], custom_timeouts=pulumi.CustomTimeouts(create="60m")),
        )

    (found,) = findings(program)
    assert found.severity == "warning"
    assert "has a custom timeout of 60m, but the provider waits 5 minutes" in found.message


def test_a_claim_that_is_not_awaited_is_left_alone() -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        k8s.core.v1.PersistentVolumeClaim(
            "claim", metadata=meta("claim", skipAwait="true"), spec=claim_spec(""), opts=options(depends_on=[space])
        )

    assert findings(program) == ()


# Waiting


def picker(replicas: int, *args: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "picker", "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "picker", "args": list(args)}]}},
        },
    }


@pytest.mark.parametrize(
    ("replicas", "args", "skip_await", "found"),
    [
        (2, ["--ha-enable-leader-election"], False, True),
        (2, ["--leader-elect", "true"], False, True),
        (1, ["--ha-enable-leader-election"], False, False),
        (2, ["--ha-enable-leader-election=false"], False, False),
        (2, ["--leader-elect", "false"], False, False),
        (2, ["--verbose"], False, False),
        (2, ["--ha-enable-leader-election"], True, False),
    ],
)
def test_standbys_that_a_release_waits_for(replicas: int, args: list[str], skip_await: bool, found: bool) -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        k8s.helm.v3.Release(
            "pool",
            name="pool",
            namespace=NAMESPACE,
            chart="oci://example.com/pool",
            skip_await=skip_await,
            opts=options(depends_on=[space]),
        )

    messages = said(findings(program, chart_objects=lambda _: [picker(replicas, *args)]))
    assert [f"runs {replicas} replicas that elect a leader" in one for one in messages] == ([True] if found else [])


@pytest.mark.parametrize(
    ("api_version", "kind", "wait_for", "message"),
    [
        ("gateway.networking.k8s.io/v1", "Gateway", "condition=Programmed", ""),
        ("gateway.networking.k8s.io/v1", "Gateway", "condition=Working", "nothing sets the condition Working"),
        ("gateway.networking.k8s.io/v1", "HTTPRoute", "condition=Accepted", "conditions under status.parents"),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "condition=Ready", "a VolumeSnapshot has no conditions"),
        ("example.com/v1", "Thing", "condition=Anything", ""),
        ("example.com/v1", "Thing", "jsonpath=.status.phase=Up", "cannot be evaluated"),
        ("example.com/v1", "Thing", "Ready", 'expected a "jsonpath=" or "condition=" prefix'),
    ],
)
def test_a_condition_that_never_comes_true(api_version: str, kind: str, wait_for: str, message: str) -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        k8s.apiextensions.CustomResource(
            "one",
            api_version=api_version,
            kind=kind,
            metadata=meta("one", waitFor=wait_for),
            opts=options(depends_on=[space]),
        )

    found = findings(program)
    assert [message in one.message for one in found] == ([True] if message else [])
    assert all(one.severity == "error" for one in found)


def test_the_fix_of_a_route_is_a_path_that_works() -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        k8s.apiextensions.CustomResource(
            "route",
            api_version="gateway.networking.k8s.io/v1",
            kind="HTTPRoute",
            metadata=meta("route", waitFor="condition=Accepted"),
            opts=options(depends_on=[space]),
        )

    (found,) = findings(program)
    assert found.fix.endswith('jsonpath={.status.parents[0].conditions[?(@.type=="Accepted")].status}=True')


PROBE = {"startupProbe": {"periodSeconds": 10, "failureThreshold": 90}}
ONE_BY_ONE = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


@pytest.mark.parametrize(
    ("timeouts", "expected"),
    [
        (None, ["error: the default timeout of create", "warning: the default timeout of update"]),
        ({"create": "15m", "update": "45m"}, []),
        ({"create": "10m", "update": "45m"}, ["error: the custom timeout of create of Deployment/server is 10 min"]),
        ({"create": "15m", "update": "30m"}, ["warning: the custom timeout of update of Deployment/server is 30 min"]),
    ],
)
def test_a_timeout_below_the_start(timeouts: dict[str, str] | None, expected: list[str]) -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        spec = {**deployment_spec("server", 3, container=PROBE), "strategy": ONE_BY_ONE}
        custom = pulumi.CustomTimeouts(**timeouts) if timeouts else None
        k8s.apps.v1.Deployment(
            "server", metadata=meta("server"), spec=spec, opts=options(depends_on=[space], custom_timeouts=custom)
        )

    messages = said(findings(program))
    assert len(messages) == len(expected)
    assert all(one.startswith(start) for one, start in zip(sorted(messages), expected, strict=True))


def test_a_job_that_may_run_longer_than_pulumi_waits() -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        spec = {"activeDeadlineSeconds": 3600, "template": pod_template("job", restartPolicy="Never")}
        k8s.batch.v1.Job("job", metadata=meta("job"), spec=spec, opts=options(depends_on=[space]))

    messages = said(findings(program))
    assert any("the Job may run 60 min (activeDeadlineSeconds)" in one for one in messages)


@pytest.mark.parametrize(
    ("selector", "replicas", "message"),
    [
        ({"app": "server"}, 1, ""),
        ({"app": "nobody"}, 1, "no pod of the program carries the labels"),
        ({"app": "server"}, 0, "has zero replicas"),
    ],
)
def test_a_service_that_waits_for_pods(selector: dict[str, str], replicas: int, message: str) -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        server = k8s.apps.v1.Deployment(
            "server",
            metadata=meta("server"),
            spec=deployment_spec("server", replicas),
            opts=options(depends_on=[space]),
        )
        k8s.core.v1.Service(
            "service",
            metadata=meta("service"),
            spec={"selector": selector, "ports": [{"port": 80}]},
            opts=options(depends_on=[server]),
        )

    found = findings(program)
    assert [message in one.message for one in found] == ([True] if message else [])


def test_a_service_that_its_pods_wait_for() -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        service = k8s.core.v1.Service(
            "service",
            metadata=meta("service"),
            spec={"selector": {"app": "server"}, "ports": [{"port": 80}]},
            opts=options(depends_on=[space]),
        )
        spec = deployment_spec("server")
        k8s.apps.v1.Deployment("server", metadata=meta("server"), spec=spec, opts=options(depends_on=[service]))

    (found,) = findings(program)
    assert found.severity == "error"
    assert "is created only after it" in found.message


@pytest.mark.parametrize(("replicas", "found"), [(2, False), (3, True)])
def test_more_gpus_than_the_quota_allows(replicas: int, found: bool) -> None:
    def program(options: Options) -> None:
        space = namespace(options)
        quota = k8s.core.v1.ResourceQuota(
            "quota",
            metadata=meta("gpu"),
            spec={"hard": {"requests.nvidia.com/gpu": "16"}},
            opts=options(depends_on=[space]),
        )
        container = {"resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "8"}}}
        spec = deployment_spec("server", replicas, container=container)
        k8s.apps.v1.Deployment("server", metadata=meta("server"), spec=spec, opts=options(depends_on=[quota]))

    messages = said(findings(program))
    assert messages == (
        [
            "error: Deployment/server ask for 24 GPUs, and ResourceQuota/gpu allows 16: the pods beyond are refused and Pulumi "
            "waits for them until its timeout"
        ]
        if found
        else []
    )


def test_errors_come_first() -> None:
    def program(options: Options) -> None:
        k8s.core.v1.ConfigMap("a-warning", metadata=meta("a", "elsewhere"), data={}, opts=options())
        namespace(options)
        k8s.core.v1.ConfigMap("b-error", metadata=meta("b"), data={}, opts=options())

    assert [one.severity for one in findings(program)] == ["error", "warning"]
