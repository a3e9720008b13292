"""When claims, quotas, services, custom resources and Helm's objects count as ready."""

from __future__ import annotations

from typing import Any

import pytest

from lab.providers.kubernetes import await_helm
from lab.providers.kubernetes.await_custom import custom
from lab.providers.kubernetes.await_network import service
from lab.providers.kubernetes.await_storage import claim, resource_quota
from lab.providers.kubernetes.options import Options
from lab.providers.kubernetes.readiness import rule_for
from lab.providers.kubernetes.verdict import Context, Failed, Ready, Waiting

FIRST_CONSUMER = {"volumeBindingMode": "WaitForFirstConsumer"}
IMMEDIATE = {"volumeBindingMode": "Immediate"}


def a_claim(phase: str, class_name: str | None = "fast") -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"storageClassName": class_name}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("phase", "storage_class", "update", "ready"),
    [
        ("Pending", FIRST_CONSUMER, False, True),
        # The provider asks for Pending and nothing else: a claim that is taken over when it is Bound already times out.
        ("Bound", FIRST_CONSUMER, False, False),
        ("Bound", FIRST_CONSUMER, True, True),
        ("Pending", FIRST_CONSUMER, True, False),
        ("Pending", IMMEDIATE, False, False),
        ("Bound", IMMEDIATE, False, True),
        ("Pending", None, False, False),
        ("Bound", None, False, True),
    ],
)
def test_a_claim(phase: str, storage_class: Any, update: bool, ready: bool) -> None:
    context = Context(storage_class=storage_class, before=a_claim("Bound") if update else None)
    assert isinstance(claim(a_claim(phase), context), Ready) is ready


def test_a_claim_whose_class_is_missing_says_so() -> None:
    assert claim(a_claim("Pending"), Context()) == Waiting("phase Bound; there is no StorageClass fast")


def test_a_quota_is_ready_once_its_controller_has_it() -> None:
    hard = {"requests.nvidia.com/gpu": "8"}
    assert isinstance(resource_quota({"spec": {"hard": hard}, "status": {}}, Context()), Waiting)
    assert isinstance(resource_quota({"spec": {"hard": hard}, "status": {"hard": hard}}, Context()), Ready)


def endpoints(*ready: bool | None, service: str = "s") -> dict[str, Any]:
    listed = [{"conditions": {} if one is None else {"ready": one}} for one in ready]
    return {"metadata": {"labels": {"kubernetes.io/service-name": service}}, "endpoints": listed}


BALANCED = {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}


@pytest.mark.parametrize(
    ("spec", "status", "slices", "missing"),
    [
        ({"selector": {"app": "a"}}, {}, [endpoints(True)], ""),
        ({"selector": {"app": "a"}}, {}, [endpoints(None)], ""),
        ({"selector": {"app": "a"}}, {}, [endpoints(False)], "pods behind it"),
        ({"selector": {"app": "a"}}, {}, [], "pods behind it"),
        ({}, {}, [], "without a selector"),
        ({}, {}, [endpoints(True)], ""),
        ({"selector": {"app": "a"}, "clusterIP": "None"}, {}, [], ""),
        ({"type": "ExternalName"}, {}, [], ""),
        ({"type": "LoadBalancer", "selector": {"app": "a"}}, {}, [endpoints(True)], "address"),
        ({"type": "LoadBalancer", "selector": {"app": "a"}}, BALANCED, [endpoints(True)], ""),
    ],
)
def test_a_service(spec: Any, status: Any, slices: Any, missing: str) -> None:
    found = service({"spec": spec, "status": status}, Context(endpoint_slices=slices))
    assert isinstance(found, Ready) if not missing else isinstance(found, Waiting) and missing in found.missing


def test_endpoints_settle_before_a_service_is_ready() -> None:
    context = Context(endpoint_slices=[endpoints(True)], settled=False)
    assert service({"spec": {"selector": {"a": "b"}}}, context) == Waiting("its endpoints to settle")


PROGRAMMED = {"status": {"conditions": [{"type": "Programmed", "status": "True"}], "readyToUse": True, "phase": "Up"}}


@pytest.mark.parametrize(
    ("expressions", "ready"),
    [
        (["condition=Programmed"], True),
        (["condition=Programmed=true"], True),
        (["condition=Programmed=False"], False),
        (["condition=Accepted"], False),
        (["jsonpath={.status.readyToUse}=true"], True),
        (["jsonpath={.status.readyToUse}=false"], False),
        (["jsonpath={.status.phase}"], True),
        (["jsonpath={.status.phase}=Up", "condition=Programmed"], True),
        (["jsonpath={.status.phase}=Up", "condition=Accepted"], False),
    ],
)
def test_what_a_program_waits_for_itself(expressions: list[str], ready: bool) -> None:
    assert isinstance(custom(PROGRAMMED, expressions), Ready) is ready


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("jsonpath={.status.conditions}=True", "is a list"),
        ("jsonpath={.status.conditions[*].type}=True", None),
        ("jsonpath=.status.phase=Up", "no braces"),
        ("jsonpath={.status.phase}Up", "must be `=value`"),
        ("jsonpath={.status[}=Up", "not a valid JSONPath"),
    ],
)
def test_an_expression_that_cannot_be_compared_fails_the_update(expression: str, reason: str | None) -> None:
    found = custom(PROGRAMMED, [expression])
    if reason is None:
        assert found == Waiting("{.status.conditions[*].type} to be True; it is Programmed")
    else:
        assert isinstance(found, Failed)
        assert reason in found.reason


def test_a_condition_that_is_false_says_why() -> None:
    one = {
        "status": {
            "conditions": [{"type": "Programmed", "status": "False", "reason": "Invalid", "message": "no subnet"}]
        }
    }
    assert custom(one, ["condition=Programmed"]) == Waiting(
        "condition Programmed to be True; it is False: [Invalid] no subnet"
    )


# Which rule an object gets


@pytest.mark.parametrize(
    ("api_version", "kind", "seconds", "fixed"),
    [
        ("apps/v1", "Deployment", 600, False),
        ("batch/v1", "Job", 600, False),
        ("v1", "PersistentVolumeClaim", 300, True),
        ("v1", "ResourceQuota", 60, True),
        ("v1", "ConfigMap", None, False),
        ("v1", "Namespace", None, False),
        ("apps/v1", "ReplicaSet", None, False),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot", None, False),
        # Another group's kind of the same name is a custom resource.
        ("example.com/v1", "Deployment", None, False),
    ],
)
def test_the_rules_by_kind(api_version: str, kind: str, seconds: float | None, fixed: bool) -> None:
    rule = rule_for({"apiVersion": api_version, "kind": kind}, Options())
    found = (None, False) if rule is None else (rule.seconds, rule.fixed)
    assert found == (seconds, fixed)


def test_annotations_go_before_the_kind() -> None:
    one = {"apiVersion": "apps/v1", "kind": "Deployment", **PROGRAMMED}
    assert rule_for(one, Options(skip_await=True, wait_for=("condition=Programmed",))) is None
    asked = rule_for(one, Options(wait_for=("condition=Programmed",)))
    assert asked is not None
    assert asked.judge(one, Context()) == Ready()


# Helm


def helm_deployment(replicas: int, rolling: Any = None) -> dict[str, Any]:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling or {}}
    return {
        "metadata": {"generation": 1},
        "spec": {"replicas": replicas, "strategy": strategy},
        "status": {"observedGeneration": 1},
    }


def newest(ready: int) -> Context:
    old = {"metadata": {"annotations": {"deployment.kubernetes.io/revision": "1"}}, "status": {"readyReplicas": 9}}
    new = {"metadata": {"annotations": {"deployment.kubernetes.io/revision": "2"}}, "status": {"readyReplicas": ready}}
    return Context(replica_sets=[old, new])


@pytest.mark.parametrize(
    ("replicas", "rolling", "least"),
    [
        (1, None, 1),
        (2, None, 2),  # a quarter of two is none: a standby that never gets ready is waited for
        (8, None, 6),
        (4, {"maxUnavailable": 1, "maxSurge": 0}, 3),
        (2, {"maxUnavailable": 0, "maxSurge": 0}, 1),  # Kubernetes then takes one away all the same
    ],
)
def test_helm_waits_for_what_the_rollout_may_not_do_without(replicas: int, rolling: Any, least: int) -> None:
    one = helm_deployment(replicas, rolling)
    assert isinstance(await_helm.deployment(one, newest(least)), Ready)
    assert await_helm.deployment(one, newest(least - 1)) == Waiting(f"{least - 1} of at least {least} pods ready")


def test_helm_asks_a_service_for_an_address_and_not_for_pods() -> None:
    assert isinstance(await_helm.service({"spec": {"clusterIP": "10.0.0.1"}}, Context()), Ready)
    balanced = {"spec": {"clusterIP": "10.0.0.1", "type": "LoadBalancer"}}
    assert isinstance(await_helm.service(balanced, Context()), Waiting)
