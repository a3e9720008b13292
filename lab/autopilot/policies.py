"""Autopilot's rules as ValidatingAdmissionPolicies, from the YAML files in `policies`."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

import yaml

from facts import machines, node_labels

Manifest = dict[str, Any]
Effect = Literal["refused", "pending", "changed", "advised"]
"""GKE's reaction: admission refuses the object; it stays pending without a node or volume; Autopilot changes it; nothing, but it
causes problems later."""
Subject = Literal["pods", "services", "computeclasses", "storageclasses"]
Action = Literal["Deny", "Warn"]

FOLDER: Final = Path(__file__).with_name("policies")
POD_VARIABLES: Final = Path(__file__).with_name("pod_variables.yaml")
API_VERSION: Final = "admissionregistration.k8s.io/v1"
PREFIX: Final = "vllm-fleet.dev/"
"""Prefix of the annotations with a policy's subject, effect and source."""

SYSTEM_NAMESPACES: Final = (
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "gke-gmp-system",
    "gke-managed-system",
    "gmp-public",
    "gmp-system",
)
"""Google's namespaces, exempt from the rules. Source: GKE docs, "GKE Autopilot security measures", managed namespaces; the
names with gmp: Managed Service for Prometheus docs."""

_ANY_VERSION: Final = ["*"]
"""Not named: the controller manager would type-check every expression against eight kinds, for nothing as they use `dyn(object)`.
Measured: eleven seconds of CPU after every start."""
_POD_RULE: Final = {"apiGroups": [""], "apiVersions": _ANY_VERSION, "operations": ["CREATE"], "resources": ["pods"]}
_TEMPLATE_RULES: Final = (
    {
        "apiGroups": ["apps"],
        "apiVersions": _ANY_VERSION,
        "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments", "replicasets", "statefulsets", "daemonsets"],
    },
    {
        "apiGroups": ["batch"],
        "apiVersions": _ANY_VERSION,
        "operations": ["CREATE", "UPDATE"],
        "resources": ["jobs", "cronjobs"],
    },
)
_CONTROLLERS_PODS: Final = ("pod-template-hash", "controller-revision-hash", "batch.kubernetes.io/controller-uid")
"""Labels of pods created by ReplicaSets, StatefulSets, DaemonSets and Jobs. Source: Kubernetes docs, well-known labels. Their
templates are checked, so most policies skip these pods."""

_ACTIONS: Final[dict[Effect, tuple[Action, Action]]] = {
    # GKE Warden also refuses workloads: public reports show Deployments, DaemonSets and CronJobs.
    "refused": ("Deny", "Deny"),
    # GKE accepts both, and the pod stays Pending. Refusing every pod makes the reason visible.
    "pending": ("Deny", "Warn"),
    "changed": ("Warn", "Warn"),
    "advised": ("Warn", "Warn"),
}
"""Action on the object itself, and on a template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One policy and its bindings, ready to apply."""

    name: str
    subject: Subject
    effect: Effect
    source: str
    """Document of the rule."""
    manifest: Manifest
    bindings: tuple[Manifest, ...]


@cache
def policies() -> tuple[Policy, ...]:
    """All policies, by name. Do not modify the manifests."""
    return tuple(sorted((_policy(_read(path)) for path in FOLDER.glob("*.yaml")), key=lambda one: one.name))


def _policy(written: Manifest) -> Policy:
    metadata = written["metadata"]
    name, annotations = metadata["name"], metadata["annotations"]
    subject, effect = annotations[f"{PREFIX}subject"], annotations[f"{PREFIX}on-gke"]
    if subject not in get_args(Subject) or effect not in get_args(Effect):
        raise ValueError(f"{name}: subject {subject} or on-gke {effect} is not allowed; see lab/autopilot/policies.py")
    manifest = copy.deepcopy(written)
    spec = manifest["spec"]
    spec["failurePolicy"] = "Fail"
    for validation in spec["validations"]:
        validation["reason"] = "Forbidden"
    bindings: tuple[Manifest, ...]
    own, template = _ACTIONS[cast(Effect, effect)]
    if subject == "pods":
        spec["matchConstraints"] = {"resourceRules": [_POD_RULE, *_TEMPLATE_RULES]}
        spec["variables"] = [*_lists(), *_read(POD_VARIABLES), *spec.get("variables", ())]
        bindings = (
            _binding(f"{name}-pods", name, own, [_POD_RULE], every_pod=own != template),
            _binding(f"{name}-templates", name, template, list(_TEMPLATE_RULES)),
        )
    else:
        if subject == "computeclasses":
            spec["variables"] = [_gpu_machines(), *spec.get("variables", ())]
        bindings = (_binding(name, name, own),)
    return Policy(
        name=name,
        subject=subject,
        effect=effect,
        source=" ".join(annotations[f"{PREFIX}source"].split()),
        manifest=manifest,
        bindings=bindings,
    )


def _lists() -> list[Manifest]:
    """Autopilot's names and machine types, as CEL variables."""
    known = machines.MACHINES.values()
    lists: dict[str, object] = {
        "podGpus": {one.accelerator: machines.of_accelerator(one.accelerator)[-1].pod_gpus for one in known},
        "nodeGpus": {
            one.accelerator: sorted({str(alike.gpus) for alike in machines.of_accelerator(one.accelerator)})
            for one in known
        },
        "withLocalSsd": sorted({one.accelerator for one in known if one.local_ssd == "always"}),
        "builtInClasses": node_labels.BUILT_IN_CLASSES,
        "selectable": node_labels.SELECTABLE,
        "selectableBesideAClass": node_labels.SELECTABLE_BESIDE_A_CLASS,
    }
    return [{"name": name, "expression": json.dumps(values)} for name, values in lists.items()]


def _gpu_machines() -> Manifest:
    """GPU machine types as a CEL variable; CEL lists have values of one type."""
    found = [
        {
            "type": machine.type,
            "family": machine.family,
            "accelerator": machine.accelerator,
            "count": str(machine.gpus),
            "boot": machine.boot_disk,
        }
        for machine in machines.MACHINES.values()
    ]
    return {"name": "gpuMachines", "expression": json.dumps(found)}


def _binding(
    name: str, policy: str, action: Action, rules: list[Manifest] | None = None, *, every_pod: bool = True
) -> Manifest:
    """A binding outside Google's namespaces; cluster-wide kinds match the selector."""
    expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(SYSTEM_NAMESPACES)}
    match: Manifest = {"namespaceSelector": {"matchExpressions": [expression]}}
    if rules is not None:
        match["resourceRules"] = copy.deepcopy(rules)
    if not every_pod:
        match["objectSelector"] = {
            "matchExpressions": [{"key": label, "operator": "DoesNotExist"} for label in _CONTROLLERS_PODS]
        }
    return {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": policy, "validationActions": [action], "matchResources": match},
    }


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))
