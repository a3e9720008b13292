"""The spending guard: its pod, its permissions, and the ConfigMap with the sum."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pulumi
import pulumi_kubernetes as k8s

from settings.derived.spending import Rates
from settings.names import SPENDING_GUARD_VCPUS
from settings.sections.spending import Spending
from workloads import pod_programs
from workloads.names import SPENDING_APP, labels, selector
from workloads.space import Space, once_created
from workloads.spending.guard import QUOTA, STATE

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ContainerArgsDict, PodSpecArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

IMAGE: Final = (
    "library/python:3.13.14-alpine3.24@sha256:399babc8b49529dabfd9c922f2b5eea81d611e4512e3ed250d75bd2e7683f4b0"
)
"""Python and its standard library, about 20 MB; the servers' image has 10 GB. Source: Docker Hub, as ten public repositories pin it."""
INTERVAL_SECONDS: Final = 30
"""Seconds between two turns; each lists the namespace's pods and writes a kilobyte."""
IDLE_SECONDS: Final = 660
"""How long a machine without pods is still paid. Source: cluster autoscaler FAQ, --scale-down-unneeded-time, 10 minutes; removal,
assumed, one more."""
NONROOT: Final = 65532


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingGuardArgs:
    """Arguments of `SpendingGuard`."""

    space: Space
    """Namespace whose pods are counted and paused; labels; image source."""
    spending: Spending
    """Limit, deadline and action."""
    rates: Rates
    """Prices of the machines."""
    grace_seconds: int
    """Longest shutdown of a server pod, in seconds."""


class SpendingGuard(pulumi.ComponentResource):
    """One pod that counts cost and, if `then` is pause, deletes the namespace's GPU pods at the limit and blocks new ones.

    It does not read invoices, other namespaces or nodes. It pauses every GPU pod of the namespace: autoscaled servers,
    canaries, Jobs, and pods without an owner, which do not come back.
    """

    def __init__(self, name: str, args: SpendingGuardArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:SpendingGuard", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        namespace, marks = args.space.namespace, labels(args.space.labels, SPENDING_APP)
        own: ObjectMetaArgsDict = {"name": SPENDING_APP, "namespace": namespace, "labels": marks}
        account = k8s.core.v1.ServiceAccount(
            f"{name}-account", metadata=own, automount_service_account_token=False, opts=child
        )
        role = k8s.rbac.v1.Role(f"{name}-role", metadata=own, rules=rights(args.spending), opts=child)
        binding = k8s.rbac.v1.RoleBinding(
            f"{name}-binding",
            metadata=own,
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": once_created(role, SPENDING_APP),
            },
            subjects=[{"kind": "ServiceAccount", "name": once_created(account, SPENDING_APP), "namespace": namespace}],
            opts=child,
        )
        # No data, which the guard owns: an update never overwrites the sum. The guard's objects are owned by this one.
        state = k8s.core.v1.ConfigMap(f"{name}-state", metadata={**own, "name": STATE}, opts=child)
        k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=own,
            spec={
                "replicas": 1,
                # Two guards would block each other's writes.
                "strategy": {"type": "Recreate"},
                "selector": {"match_labels": selector(SPENDING_APP)},
                "template": {"metadata": {"labels": marks}, "spec": _pod(args)},
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[binding, state]),
        )
        self.register_outputs({})


def rights(spending: Spending) -> list[PolicyRuleArgsDict]:
    """Permissions of the guard, in its own namespace, by name where possible.

    With `then: warn` it may not pause, but may end a pause left by an earlier `then: pause`.
    """
    # Create by name works for server-side apply only. Source: k8s.io/apiserver, endpoints/handlers/patch.go.
    quota, pods = (
        (["create", "patch", "delete"], ["list", "delete"]) if spending.then == "pause" else (["delete"], ["list"])
    )
    return [
        {"api_groups": [""], "resources": ["configmaps"], "resource_names": [STATE], "verbs": ["get", "patch"]},
        {"api_groups": [""], "resources": ["resourcequotas"], "resource_names": [QUOTA], "verbs": quota},
        # Pod names are generated, so this cannot be limited by name.
        {"api_groups": [""], "resources": ["pods"], "verbs": pods},
        {"api_groups": ["apps"], "resources": ["replicasets"], "verbs": ["list"]},
        # Status only: permission to write a ReplicaSet would allow running any pod.
        {"api_groups": ["apps"], "resources": ["replicasets/status"], "verbs": ["patch"]},
    ]


def configuration(args: SpendingGuardArgs, namespace: str) -> dict[str, object]:
    """Configuration of the guard's program."""
    spending, rates = args.spending, args.rates
    return {
        "namespace": namespace,
        "limitUsd": spending.limit,
        **spending.model_dump(by_alias=True, exclude={"limit"}, mode="json"),
        "usdPerHourFixed": round(rates.fixed, 6),
        "usdPerMachineHour": round(rates.per_machine, 6),
        "unknown": list(rates.unknown),
        "intervalSeconds": INTERVAL_SECONDS,
        "idleSeconds": IDLE_SECONDS,
        "graceSeconds": args.grace_seconds,
    }


def _pod(args: SpendingGuardArgs) -> PodSpecArgsDict:
    config = pulumi.Output.from_input(args.space.namespace).apply(
        lambda namespace: f"--config={json.dumps(configuration(args, namespace), sort_keys=True)}"
    )
    amounts = {"cpu": f"{SPENDING_GUARD_VCPUS * 1000:.0f}m", "memory": "128Mi", "ephemeral-storage": "32Mi"}
    container: ContainerArgsDict = {
        "name": SPENDING_APP,
        "image": args.space.image(IMAGE),
        "command": ["python3", "-B", "-c", pod_programs.python_program("spending/guard.py"), config],
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "security_context": {
            "allow_privilege_escalation": False,
            "read_only_root_filesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "service_account_name": SPENDING_APP,
        "automount_service_account_token": True,
        "enable_service_links": False,
        "security_context": {
            "run_as_non_root": True,
            "run_as_user": NONROOT,
            "seccomp_profile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
