"""What can be told before an apply begins: programs with one mistake, and the findings that name it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest

from fleet.rehearse.api import Manifest
from fleet.rehearse.results import Finding
from tests.fleet.rehearse.apply.programs import NAMESPACE, deployment_spec, findings, meta, namespace, pod_template

Options = Callable[..., pulumi.ResourceOptions]
Program = Callable[[Options, pulumi.Resource], None]
SNAPSHOT = "snapshot.storage.k8s.io/v1"
GATEWAY = "gateway.networking.k8s.io/v1"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program, and the severity and resource of every finding; none where the program is sound."""

    program: Program
    expected: list[tuple[str, str]]
    chart: tuple[Manifest, ...]

    def findings(self) -> tuple[Finding, ...]:
        def program(options: Options) -> None:
            self.program(options, namespace(options))

        return findings(program, chart_objects=lambda _: self.chart)


CASES: dict[str, Case] = {}


def case(name: str, *expected: tuple[str, str], chart: Sequence[Manifest] = ()) -> Callable[[Program], Program]:
    """Add a program to the cases. It is given a function that makes options, and its namespace."""

    def add(program: Program) -> Program:
        assert name not in CASES
        CASES[name] = Case(program=program, expected=list(expected), chart=tuple(chart))
        return program

    return add


def error(resource: str) -> tuple[str, str]:
    return "error", resource


def warning(resource: str) -> tuple[str, str]:
    return "warning", resource


def config_map(options: Options, name: str, *needs: pulumi.Resource, where: str = NAMESPACE) -> pulumi.Resource:
    return k8s.core.v1.ConfigMap(name, metadata=meta(name, where), data={}, opts=options(depends_on=[*needs]))


def storage_class(options: Options, mode: str) -> pulumi.Resource:
    return k8s.storage.v1.StorageClass(
        "class",
        metadata=meta("weights", None),
        provisioner="pd.csi.storage.gke.io",
        volume_binding_mode=mode,
        opts=options(),
    )


def claim(
    options: Options, *needs: pulumi.Resource, class_name: str = "weights", create: str | None = None, **spec: Any
) -> pulumi.Resource:
    return k8s.core.v1.PersistentVolumeClaim(
        "claim",
        metadata=meta("claim", **spec.pop("annotations", {})),
        spec={
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "64Gi"}},
            "storageClassName": class_name,
            **spec,
        },
        opts=options(depends_on=[*needs], custom_timeouts=pulumi.CustomTimeouts(create=create)),
    )


def server(options: Options, *needs: pulumi.Resource, replicas: int = 1, **spec: Any) -> pulumi.Resource:
    spec = deployment_spec("server", replicas, **spec)
    return k8s.apps.v1.Deployment("server", metadata=meta("server"), spec=spec, opts=options(depends_on=[*needs]))


def service(options: Options, *needs: pulumi.Resource, app: str = "server") -> pulumi.Resource:
    spec = {"selector": {"app": app}, "ports": [{"port": 80}]}
    return k8s.core.v1.Service("service", metadata=meta("service"), spec=spec, opts=options(depends_on=[*needs]))


def custom(
    options: Options, space: pulumi.Resource, api_version: str, kind: str, **annotations: str
) -> pulumi.Resource:
    return k8s.apiextensions.CustomResource(
        "custom",
        api_version=api_version,
        kind=kind,
        metadata=meta("custom", **annotations),
        spec={},
        opts=options(depends_on=[space]),
    )


@case("a sound program")
def _sound(options: Options, space: pulumi.Resource) -> None:
    volumes = [{"name": "weights", "persistentVolumeClaim": {"claimName": "claim"}}]
    filled = claim(options, space, storage_class(options, "WaitForFirstConsumer"))
    service(options, server(options, filled, volumes=volumes))


# Order


@case("one object declared twice", error("first"))
def _twice(options: Options, space: pulumi.Resource) -> None:
    for name in ("first", "second"):
        k8s.core.v1.ConfigMap(name, metadata=meta("same"), data={}, opts=options(depends_on=[space]))


@case("a resource that does not depend on its namespace", error("early"))
def _early(options: Options, _: pulumi.Resource) -> None:
    config_map(options, "early")


@case("the namespace's output is a dependency")
def _output(options: Options, space: pulumi.Resource) -> None:
    assert isinstance(space, k8s.core.v1.Namespace)
    metadata = {"name": "late", "namespace": space.metadata.name}
    k8s.core.v1.ConfigMap("late", metadata=metadata, data={}, opts=options())


@case("a namespace that is never created", warning("lost"))
def _lost(options: Options, _: pulumi.Resource) -> None:
    config_map(options, "lost", where="elsewhere")
    config_map(options, "home", where="default")


@case("errors come first", error("b"), warning("a"))
def _both(options: Options, _: pulumi.Resource) -> None:
    config_map(options, "a", where="elsewhere")
    config_map(options, "b")


def _used(spec: dict[str, Any], options: Options, space: pulumi.Resource) -> None:
    config_map(options, "needed", space)
    server(options, space, **spec)


NEEDED = {"name": "needed"}
USES: dict[str, dict[str, Any]] = {
    "a volume": {"volumes": [{"name": "v", "configMap": NEEDED}]},
    "a projected volume": {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": NEEDED}]}}]},
    "an environment": {"container": {"envFrom": [{"configMapRef": NEEDED}]}},
    "a variable": {"container": {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {**NEEDED, "key": "a"}}}]}},
}
for where, use in USES.items():
    case(f"pods that use a config map in {where}", warning("server"))(partial(_used, use))
OPTIONAL = {"volumes": [{"name": "v", "configMap": {**NEEDED, "optional": True}}]}
case("an optional config map may come late")(partial(_used, OPTIONAL))


@case("two that wait for each other", error("server"))
def _each_other(options: Options, space: pulumi.Resource) -> None:
    waiting = server(options, space, serviceAccountName="account")
    k8s.core.v1.ServiceAccount("account", metadata=meta("account"), opts=options(depends_on=[waiting]))


# Claims


def _beside(mode: str, options: Options, space: pulumi.Resource) -> None:
    storage_class(options, mode)
    claim(options, space)


case("a claim beside a class that waits for a pod", error("claim"))(partial(_beside, "WaitForFirstConsumer"))
case("a claim beside a class that binds at once", warning("claim"))(partial(_beside, "Immediate"))


@case("a class that does not exist", warning("claim"))
def _no_class(options: Options, space: pulumi.Resource) -> None:
    claim(options, space, class_name="hyperdisk")


def _filled(annotations: dict[str, str], depends: bool, options: Options, space: pulumi.Resource) -> None:
    image = custom(options, space, SNAPSHOT, "VolumeSnapshot", **annotations)
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "custom"}
    claim(options, storage_class(options, "Immediate"), image if depends else space, dataSource=source)


AWAITED = {"waitFor": "jsonpath={.status.readyToUse}=true"}
case("a claim filled from a snapshot")(partial(_filled, AWAITED, True))
case("a claim filled from a snapshot that is not awaited", error("claim"))(partial(_filled, {}, True))
case("a claim filled from a snapshot beside it", error("claim"))(partial(_filled, AWAITED, False))


@case("a claim with a timeout, which does nothing", warning("claim"))
def _timeout(options: Options, space: pulumi.Resource) -> None:
    claim(options, space, storage_class(options, "Immediate"), create="60m")


@case("a claim that is not awaited")
def _left_alone(options: Options, space: pulumi.Resource) -> None:
    claim(options, space, class_name="", annotations={"skipAwait": "true"})


# Waiting


def _release(skip_await: bool, options: Options, space: pulumi.Resource) -> None:
    k8s.helm.v3.Release(
        "pool",
        name="pool",
        namespace=NAMESPACE,
        chart="oci://example.com/pool",
        skip_await=skip_await,
        opts=options(depends_on=[space]),
    )


for replicas, arguments, skip_await, found in (
    (2, "--ha-enable-leader-election", False, [error("pool")]),
    (2, "--leader-elect true", False, [error("pool")]),
    (1, "--ha-enable-leader-election", False, []),
    (2, "--ha-enable-leader-election=false", False, []),
    (2, "--leader-elect false", False, []),
    (2, "--verbose", False, []),
    (2, "--ha-enable-leader-election", True, []),
):
    picker = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "picker", "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "picker", "args": arguments.split()}]}},
        },
    }
    name = f"a release with {replicas} pickers, {arguments}{', not awaited' if skip_await else ''}"
    case(name, *found, chart=[picker])(partial(_release, skip_await))


def _awaited(api_version: str, kind: str, wait_for: str, options: Options, space: pulumi.Resource) -> None:
    custom(options, space, api_version, kind, waitFor=wait_for)


for api_version, kind, wait_for, sound in (
    (GATEWAY, "Gateway", "condition=Programmed", True),
    (GATEWAY, "Gateway", "condition=Working", False),
    (GATEWAY, "HTTPRoute", "condition=Accepted", False),
    (SNAPSHOT, "VolumeSnapshot", "condition=Ready", False),
    ("example.com/v1", "Thing", "condition=Anything", True),
    ("example.com/v1", "Thing", "jsonpath=.status.phase=Up", False),
    ("example.com/v1", "Thing", "Ready", False),
):
    awaited = partial(_awaited, api_version, kind, wait_for)
    case(f"a {kind} waited for by {wait_for}", *([] if sound else [error("custom")]))(awaited)


def _slow(timeouts: dict[str, str], options: Options, space: pulumi.Resource) -> None:
    probe = {"startupProbe": {"periodSeconds": 10, "failureThreshold": 90}}
    spec = {
        **deployment_spec("server", 3, container=probe),
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    }
    opts = options(depends_on=[space], custom_timeouts=pulumi.CustomTimeouts(**timeouts))
    k8s.apps.v1.Deployment("server", metadata=meta("server"), spec=spec, opts=opts)


for create, update, expected in (
    (None, None, [error("server"), warning("server")]),
    ("15m", "45m", []),
    ("10m", "45m", [error("server")]),
    ("15m", "30m", [warning("server")]),
):
    given = {key: value for key, value in (("create", create), ("update", update)) if value}
    named = ", ".join(f"{key} in {value}" for key, value in given.items()) or "no timeouts"
    case(f"servers that start in 15 min one by one, {named}", *expected)(partial(_slow, given))


@case("a Job that may run longer than Pulumi waits", error("job"), warning("job"))
def _long(options: Options, space: pulumi.Resource) -> None:
    spec = {"activeDeadlineSeconds": 3600, "template": pod_template("job", restartPolicy="Never")}
    k8s.batch.v1.Job("job", metadata=meta("job"), spec=spec, opts=options(depends_on=[space]))


def _behind(app: str, replicas: int, options: Options, space: pulumi.Resource) -> None:
    service(options, server(options, space, replicas=replicas), app=app)


case("a service before pods that come")(partial(_behind, "server", 1))
case("a service before pods of other labels", warning("service"))(partial(_behind, "nobody", 1))
case("a service before no replicas", error("service"))(partial(_behind, "server", 0))


@case("a service that its pods wait for", error("service"))
def _service_first(options: Options, space: pulumi.Resource) -> None:
    server(options, service(options, space))


def _quota(replicas: int, options: Options, space: pulumi.Resource) -> None:
    quota = k8s.core.v1.ResourceQuota(
        "quota",
        metadata=meta("gpu"),
        spec={"hard": {"requests.nvidia.com/gpu": "16"}},
        opts=options(depends_on=[space]),
    )
    eight = {"nvidia.com/gpu": "8"}
    server(options, quota, replicas=replicas, container={"resources": {"limits": eight, "requests": eight}})


case("16 GPUs of a quota of 16")(partial(_quota, 2))
case("24 GPUs of a quota of 16", error("quota"))(partial(_quota, 3))


@pytest.mark.parametrize("name", CASES)
def test_each_mistake_is_one_finding_of_its_resource_and_a_sound_program_has_none(name: str) -> None:
    found = CASES[name].findings()
    assert [(one.severity, one.subject.rpartition("::")[2]) for one in found] == CASES[name].expected
    assert all(one.fix for one in found)


def test_the_words_of_the_findings(golden: Callable[[str, str], None]) -> None:
    told = (
        f"{name}\n  {one.severity}: {one.message}\n  fix: {one.fix}\n"
        for name, case in CASES.items()
        for one in case.findings()
    )
    golden("rehearse/findings.txt", "\n".join(told))
