"""The spending guard: its namespace, its pod, its permissions, and the ConfigMap with the sum."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pulumi
import pulumi_kubernetes as k8s

from facts.capacity import MAX_GRACE_SECONDS, REMOVAL_SECONDS
from facts.names import SPENDING_GUARD_VCPUS, spending_namespace
from settings.derived.spending import Rates
from settings.derived.traffic import Traffic, VpcRanges
from settings.sections.capacity import Placement
from settings.sections.spending import Spending
from workloads import network_policies as net
from workloads import pod_programs
from workloads.names import SPENDING_APP, once_created, own_labels, selector, stack_labels
from workloads.namespace import pod_security_labels
from workloads.python_image import NONROOT
from workloads.spending.guard import ALIVE, QUOTA, ROLE
from workloads.spending.total import STATE, Terms

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ContainerArgsDict, PodSpecArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict, SubjectArgsDict

INTERVAL_SECONDS: Final = 30
"""Seconds between two turns; each lists the namespace's pods and writes a kilobyte."""
READY_MINUTES: Final = 10
"""How long a guard is Ready after its last complete turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingGuardArgs:
    """Arguments of `SpendingGuard`."""

    namespace: str
    """Namespace whose pods are counted and paused; it must exist."""
    image: pulumi.Input[str]
    """Full name of `workloads.python_image.IMAGE`."""
    traffic: Traffic
    """The stack's connections: their ranges are the guard's."""
    ranges: pulumi.Input[VpcRanges] | None = None
    """The VPC's ranges, see `NetworkPoliciesArgs`."""
    spending: Spending
    """Limit, deadline and action."""
    rates: Rates
    """Prices of the machines."""
    placement: Placement
    """The server pods' longest shutdown, and the time until GKE removes a machine without pods."""


class SpendingGuard(pulumi.ComponentResource):
    """One pod that counts cost and, if `then` is pause, deletes the namespace's GPU pods at the limit and blocks new ones.

    The pod, its account and its sum are in a namespace of their own: who may edit the servers' namespace can neither stop the guard
    nor change the sum. It does not read invoices or other namespaces. With a ComputeClass it reads the nodes of its pods,
    whose labels name their priority. It pauses every GPU pod of the namespace: autoscaled servers, canaries, Jobs, and pods without an
    owner, which do not come back.
    """

    def __init__(self, name: str, args: SpendingGuardArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:SpendingGuard", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        labels, home = own_labels(SPENDING_APP), spending_namespace(args.namespace)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": home, "labels": {**stack_labels(), **pod_security_labels()}},
            opts=child,
        )
        inside = once_created(namespace, home)
        own: ObjectMetaArgsDict = {"name": SPENDING_APP, "namespace": inside, "labels": labels}
        there: ObjectMetaArgsDict = {**own, "name": ROLE, "namespace": args.namespace}
        allowed = net.NetworkPoliciesArgs(
            namespace=inside, traffic=args.traffic, ranges=args.ranges, table=net.spending_flows
        )
        policies = net.NetworkPolicies(f"{name}-network-policies", allowed, child)
        account = k8s.core.v1.ServiceAccount(
            f"{name}-account", metadata=own, automount_service_account_token=False, opts=child
        )
        # No data, which the guard owns: an update never overwrites the sum.
        state = k8s.core.v1.ConfigMap(f"{name}-state", metadata={**own, "name": STATE}, opts=child)
        subject: SubjectArgsDict = {
            "kind": "ServiceAccount",
            "name": once_created(account, SPENDING_APP),
            "namespace": inside,
        }
        needed: list[pulumi.Resource] = [policies, state]
        group = "rbac.authorization.k8s.io"
        for prefix, metadata, rules in (
            (name, there, rights(args.spending)),
            (f"{name}-own", own, OWN_RIGHTS),
        ):
            role = k8s.rbac.v1.Role(f"{prefix}-role", metadata=metadata, rules=rules, opts=child)
            role_name = once_created(role, str(metadata["name"]))
            binding = k8s.rbac.v1.RoleBinding(
                f"{prefix}-binding",
                metadata=metadata,
                role_ref={"api_group": group, "kind": "Role", "name": role_name},
                subjects=[subject],
                opts=child,
            )
            needed.append(binding)
        if args.rates.per_priority:
            reads = k8s.rbac.v1.ClusterRole(
                f"{name}-nodes-role", metadata={"name": home, "labels": labels}, rules=NODE_RIGHTS, opts=child
            )
            needed.append(
                k8s.rbac.v1.ClusterRoleBinding(
                    f"{name}-nodes-binding",
                    metadata={"name": home, "labels": labels},
                    role_ref={"api_group": group, "kind": "ClusterRole", "name": once_created(reads, home)},
                    subjects=[subject],
                    opts=child,
                )
            )
        k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=own,
            spec={
                "replicas": 1,
                # Two guards would each write a sum of their own.
                "strategy": {"type": "Recreate"},
                "selector": {"match_labels": selector(SPENDING_APP)},
                "template": {"metadata": {"labels": labels}, "spec": _pod(args)},
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=needed),
        )
        self.register_outputs({})


OWN_RIGHTS: Final[list[PolicyRuleArgsDict]] = [
    # Create by name works for server-side apply only. Source: k8s.io/apiserver, endpoints/handlers/patch.go.
    {
        "api_groups": [""],
        "resources": ["configmaps"],
        "resource_names": [STATE],
        "verbs": ["get", "create", "patch"],
    },
]
"""Permissions of the guard in its own namespace."""

NODE_RIGHTS: Final[list[PolicyRuleArgsDict]] = [{"api_groups": [""], "resources": ["nodes"], "verbs": ["get"]}]
"""Permissions of a ComputeClass's guard in the cluster: a machine's labels name its priority. GKE names nodes, so no name can be given."""


def rights(spending: Spending) -> list[PolicyRuleArgsDict]:
    """Permissions of the guard in the servers' namespace, by name where possible.

    With `then: warn` it may not pause, but may end a pause left by an earlier `then: pause`.
    """
    quota, pods = (
        (["create", "patch", "delete"], ["list", "delete"]) if spending.then == "pause" else (["delete"], ["list"])
    )
    return [
        {"api_groups": [""], "resources": ["resourcequotas"], "resource_names": [QUOTA], "verbs": quota},
        # Its own role, which owns the quota.
        {
            "api_groups": ["rbac.authorization.k8s.io"],
            "resources": ["roles"],
            "resource_names": [ROLE],
            "verbs": ["get"],
        },
        # Pod names are generated, so this cannot be limited by name.
        {"api_groups": [""], "resources": ["pods"], "verbs": pods},
    ]


def terms(args: SpendingGuardArgs) -> Terms:
    """The limit and prices for the guard's program."""
    spending, rates = args.spending, args.rates
    return Terms(
        namespace=args.namespace,
        home=spending_namespace(args.namespace),
        limit_usd=spending.limit,
        every=spending.every,
        until=spending.until,
        since=spending.since,
        then=spending.then,
        usd_per_hour_fixed=round(rates.fixed, 6),
        usd_per_machine_hour=round(rates.per_machine, 6),
        usd_per_priority_hour={priority: round(usd, 6) for priority, usd in rates.per_priority.items()},
        reserved_machines=rates.reserved_nodes,
        usd_per_reserved_hour=round(rates.per_reserved_node, 6),
        unknown=rates.unknown,
        interval_seconds=INTERVAL_SECONDS,
        idle_seconds=args.placement.idle_seconds + REMOVAL_SECONDS,
        grace_seconds=MAX_GRACE_SECONDS,
    )


def program() -> str:
    """The guard's program, each file after those that it imports."""
    return pod_programs.joined_program(*(f"spending/{name}.py" for name in ("total", "api", "verdict", "guard")))


def _pod(args: SpendingGuardArgs) -> PodSpecArgsDict:
    config = json.dumps(asdict(terms(args)), sort_keys=True)
    amounts = {"cpu": f"{SPENDING_GUARD_VCPUS * 1000:.0f}m", "memory": "128Mi", "ephemeral-storage": "32Mi"}
    container: ContainerArgsDict = {
        "name": SPENDING_APP,
        "image": args.image,
        "command": ["python3", "-B", "-c", program(), f"--config={config}"],
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "security_context": {
            "allow_privilege_escalation": False,
            "read_only_root_filesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # Ready means counting: `pulumi up` waits for it.
        "readiness_probe": {
            "exec_": {"command": ["sh", "-c", f'test -n "$(find {ALIVE} -mmin -{READY_MINUTES})"']},
            "period_seconds": 10,
            "timeout_seconds": 5,
        },
        "volume_mounts": [{"name": "alive", "mount_path": str(Path(ALIVE).parent)}],
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
        "volumes": [{"name": "alive", "empty_dir": {"size_limit": "1Mi"}}],
    }
