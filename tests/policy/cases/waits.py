"""Cases of what Pulumi waits for, and for how long."""

from __future__ import annotations

from tests.policy.case import (
    CONTAINER,
    DEPLOYMENT,
    HERE,
    Edit,
    Props,
    arguments,
    constant,
    drop,
    new,
    of_program,
    of_resource,
    options,
    put,
    returning,
    sound,
)

_SERVICE, _JOB, _POOL, _IMAGE = "server-service", "weights-download", "gateway-pool", "weights-image"
_SERVICE_MADE = "workloads.server.server.k8s.core.v1.Service"
_AWAITED = drop(_SERVICE, "metadata.annotations", "pulumi.com/skipAwait")
_READER = "weights-reader"
_READER_AWAITED = drop(_READER, "metadata.annotations", "pulumi.com/skipAwait")
_TWO = put(_POOL, "values.inferenceExtension.replicas", value=2)


def _unannotated(given: Props) -> None:
    given["metadata"].pop("annotations", None)


def _until(name: str, expression: str) -> Edit:
    return put(name, "metadata.annotations", "pulumi.com/waitFor", value=expression)


def _annotated(name: str, key: str, value: str) -> Edit:
    return put(name, "metadata.annotations", f"pulumi.com/{key}", value=value)


def _replicas(count: int) -> Edit:
    return put(DEPLOYMENT, "spec.replicas", value=count)


def _timeouts(name: str = DEPLOYMENT, **given: str) -> Edit:
    return options(name, custom_timeouts=given)


def _pickers(*words: str, **annotations: str) -> tuple[Edit, ...]:
    """A pool without the chart, and two of its pickers."""
    metadata = {"namespace": HERE, "annotations": {f"pulumi.com/{key}": value for key, value in annotations.items()}}
    container = {"name": "epp", "args": ["--pool-name", "pool", *words]}
    return (
        new(
            "pool",
            "kubernetes:inference.networking.k8s.io/v1:InferencePool",
            {"metadata": {"name": "pool", "namespace": HERE}, "spec": {}},
        ),
        new(
            "epp",
            "kubernetes:apps/v1:Deployment",
            {
                "metadata": {"name": "epp", **metadata},
                "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
            },
        ),
    )


_ELECTION = "--ha-enable-leader-election"
_NO_BRACES = "jsonpath=.status.readyToUse=true"

CASES = (
    of_program(
        "condition-never-met",
        "a route's condition, where a Gateway has its own",
        constant("workloads.gateway.gateway.ROUTE_RESOLVED", "condition=ResolvedRefs"),
        stack="gateway",
    ),
    of_resource(
        "condition-never-met",
        "a route's condition, written manually",
        _until("gateway-route", "condition=Accepted"),
        stack="gateway",
        says='jsonpath={.status.parents[0].conditions[?(@.type=="Accepted")].status}=True',
    ),
    of_resource(
        "condition-never-met",
        "a condition that Gateways do not have",
        _until("gateway-gateway", "condition=Working"),
        stack="gateway",
        says="Accepted, Programmed",
    ),
    of_resource("condition-never-met", "a path without braces", _until(_IMAGE, _NO_BRACES), says=_NO_BRACES),
    of_resource("condition-never-met", "a path without a value", _until(_IMAGE, "jsonpath={.status.readyToUse}=")),
    of_resource("condition-never-met", "neither path nor condition", _until(_IMAGE, "readyToUse")),
    of_resource(
        "condition-never-met",
        "the second of two",
        _until(_IMAGE, '["jsonpath={.status.readyToUse}=true", "condition=Ready"]'),
        says="condition=Ready",
    ),
    sound("condition-never-met", "a path that only has to be there", _until(_IMAGE, "jsonpath={.status.restoreSize}")),
    sound("condition-never-met", "a condition of a controller", _until(_IMAGE, "condition=example.com/Checked")),
    sound(
        "condition-never-met", "a condition of a kind that is not known", _until("monitoring-rules", "condition=Ready")
    ),
    sound(
        "condition-never-met",
        "another group's Gateway",
        new(
            "mesh",
            "kubernetes:networking.istio.io/v1:Gateway",
            {"metadata": {"name": "mesh", "annotations": {"pulumi.com/waitFor": "condition=Reconciled"}}},
        ),
    ),
    sound("condition-never-met", "nothing is awaited", _until(_IMAGE, "x"), _annotated(_IMAGE, "skipAwait", "true")),
    of_program(
        "service-awaits-no-pod",
        "an awaited Service of a paused fleet",
        arguments(_SERVICE_MADE, _unannotated),
        settings={"server": {"replicas": 0}},
    ),
    of_resource("service-awaits-no-pod", "no replicas", _AWAITED, _replicas(0), says="which has 0 replicas"),
    of_resource(
        "service-awaits-no-pod",
        "labels that no pod has",
        _AWAITED,
        put(_SERVICE, "spec.selector", value={"app": "nobody"}),
        says="no pod of the stack",
    ),
    sound("service-awaits-no-pod", "servers", _AWAITED),
    sound("service-awaits-no-pod", "a paused fleet, and nothing is awaited", _replicas(0)),
    sound(
        "service-awaits-no-pod",
        "pods of a chart",
        _AWAITED,
        put(_SERVICE, "spec.selector", value={"app": "nobody"}),
        stack="gateway",
    ),
    *(
        sound("service-awaits-no-pod", what, _AWAITED, _replicas(0), put(_SERVICE, path, value=value))
        for what, path, value in (
            ("a headless Service", "spec.clusterIP", "None"),
            ("a name for another host", "spec.type", "ExternalName"),
            ("endpoints that others write", "spec.selector", {}),
        )
    ),
    of_program(
        "epp-standbys-awaited",
        "two pickers, all awaited",
        arguments("workloads.gateway.gateway.k8s.helm.v3.Release", lambda given: given.update(skip_await=False)),
        settings={"gateway": {"epp": {"replicas": 2}}},
        stack="gateway",
    ),
    of_resource("epp-standbys-awaited", "a second picker", _TWO, stack="gateway", says="Pulumi waits for 2"),
    of_resource("epp-standbys-awaited", "two pickers without the chart", *_pickers(_ELECTION), says="Deployment epp"),
    sound("epp-standbys-awaited", "two, not awaited", _TWO, put(_POOL, "skipAwait", value=True), stack="gateway"),
    sound("epp-standbys-awaited", "two without the chart, not awaited", *_pickers(_ELECTION, skipAwait="true")),
    sound("epp-standbys-awaited", "two that elect nobody", *_pickers(f"{_ELECTION}=false")),
    of_program(
        "restored-claim-awaited",
        "an awaited volume of the servers",
        arguments("workloads.weights.weights.k8s.core.v1.PersistentVolumeClaim", _unannotated),
    ),
    of_resource(
        "restored-claim-awaited",
        "an awaited volume of the servers, written manually",
        _READER_AWAITED,
        says="5 minutes for PersistentVolumeClaim weights-qwen3-5-27b-fp8-2e1b213-64gib-1200mibps-b",
    ),
    of_resource(
        "restored-claim-awaited",
        "a copy of another claim",
        _READER_AWAITED,
        drop(_READER, "spec.dataSource"),
        put(_READER, "spec.dataSourceRef", value={"kind": "PersistentVolumeClaim", "name": "other"}),
        says="filled from PersistentVolumeClaim other",
    ),
    sound("restored-claim-awaited", "an empty volume", _READER_AWAITED, drop(_READER, "spec.dataSource")),
    sound(
        "restored-claim-awaited",
        "a volume that waits for a pod",
        _READER_AWAITED,
        put("weights-reader-class", "volumeBindingMode", value="WaitForFirstConsumer"),
    ),
    sound(
        "restored-claim-awaited",
        "a class of GKE's own",
        _READER_AWAITED,
        put(_READER, "spec.storageClassName", value="premium-rwo"),
    ),
    of_program("timeout-below-start", "Pulumi's own ten minutes", returning("workloads.server.server.timeouts", None)),
    of_resource(
        "timeout-below-start",
        "Pulumi's own ten minutes, written manually",
        _timeouts(),
        stack="spot",
        says=("waits 10 minutes for the create", "allows 30", "a rollout of 12 steps", "create 30m", "update 360m"),
    ),
    of_resource(
        "timeout-below-start",
        "a start, but no rollout",
        _timeouts(create="30m", update="30m"),
        stack="spot",
        says="update",
    ),
    of_resource("timeout-below-start", "a Job's ten minutes", _timeouts(_JOB), says="activeDeadlineSeconds allows"),
    sound(
        "timeout-below-start",
        "all at once",
        _timeouts(create="30m", update="30m"),
        _replicas(4),
        put(DEPLOYMENT, "spec.strategy", value={"type": "Recreate"}),
    ),
    sound(
        "timeout-below-start",
        "long enough in an annotation",
        _timeouts(),
        _annotated(DEPLOYMENT, "timeoutSeconds", "1800"),
    ),
    of_resource(
        "timeout-below-start",
        "no number in an annotation",
        _timeouts(),
        _annotated(DEPLOYMENT, "timeoutSeconds", "30m"),
        says="waits 10 minutes",
    ),
    sound("timeout-below-start", "nothing is awaited", _timeouts(), _annotated(DEPLOYMENT, "skipAwait", "true")),
    sound("timeout-below-start", "no startup probe", _timeouts(), drop(DEPLOYMENT, f"{CONTAINER}.startupProbe")),
)
