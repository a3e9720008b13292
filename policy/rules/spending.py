"""Rules for what stops spending and for what must not stop watching: the spending guard, Jobs, ignored changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final

import money
from facts.finding import Finding
from objects import namespace_of, number, of_kind, own_name, selects, shown
from pods import Pod, all_servers, pods
from rule import Resource, ResourceRule, Setting, Settings, StackRule, dig, finding, has, listed, mapped

APP: Final = "spending-guard"
"""Label `app` of the guard's objects."""
API_PORT: Final = 443
PAUSED_BY: Final = "resourcequotas"
"""What the guard's program writes."""
COMPONENT: Final = ":SpendingGuard"
_LONGEST_TURN: Final = 300.0
"""Seconds. Assumed: an eight-node fleet spends $60 in that time."""
_KEPT: Final = (("configmaps", "patch"), ("pods", "list"))
_PAUSES: Final = (("pods", "delete"), ("resourcequotas", "create"), ("resourcequotas", "patch"))
_MOST_RETRIES: Final = 20
"""Of each pod of an indexed Job."""
_WATCHES: Final = (
    "gcp:monitoring/",
    "gcp:logging/",
    "gcp:billing/",
    "kubernetes:monitoring.googleapis.com/",
    "kubernetes:networking.k8s.io/v1:NetworkPolicy",
    "kubernetes:policy/",
    "kubernetes:rbac.authorization.k8s.io/",
    "kubernetes:core/v1:ResourceQuota",
    "kubernetes:core/v1:LimitRange",
    "kubernetes:core/v1:Namespace",
    "kubernetes:admissionregistration.k8s.io/",
)
_WATCHED_KEYS: Final = ("deletionProtection", "maintenancePolicy", "loggingConfig", "monitoringConfig", "*")


def _weak(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    guards = [pod for resource in resources for pod in pods(resource) if pod.labels.get("app") == APP]
    parts = [resource for resource in resources if resource.type.endswith(COMPONENT) or _is_part(resource)]
    if not guards and (parts or settings["mostUsd"] is not None or settings["pauses"]):
        urn = parts[0].urn if parts else ""
        yield finding(f"no Deployment of the stack runs a {APP}", urn=urn)
    for pod in guards:
        for what in _faults(pod, resources, settings):
            yield finding(f"{pod.resource.label}: {what}", urn=pod.resource.urn)


def limits_spending(resources: Sequence[Resource]) -> bool:
    """Whether a guard pauses the fleet at a limit or an end."""
    guards = (_terms(pod) for resource in resources for pod in pods(resource) if pod.labels.get("app") == APP)
    return any(
        terms.get("then") == "pause" and (number(terms.get("limitusd")) is not None or terms.get("until"))
        for terms in guards
    )


def _is_part(resource: Resource) -> bool:
    return resource.is_kubernetes and dig(resource.props, "metadata", "labels", "app") == APP


def _faults(pod: Pod, resources: Sequence[Resource], settings: Settings) -> Iterator[str]:
    if pod.replicas < 1:
        yield "spec.replicas is 0"
    terms = _terms(pod)
    if not terms:
        yield "its command is not the guard's program with a limit"
        return
    limit, pauses = number(terms.get("limitusd")), terms.get("then") == "pause"
    if limit is None and not terms.get("until"):
        yield "it has neither a limit nor an end"
    if settings["mostUsd"] is not None and (inf if limit is None else limit) > settings["mostUsd"]:
        yield f"its limit is {'missing' if limit is None else f'${limit:,.0f}'}, above ${settings['mostUsd']:,.0f}"
    if settings["pauses"] and not pauses:
        yield f"then is {terms.get('then')}, and the stack's policy config asks for pause"
    counted, region = number(terms.get("usdpermachinehour")) or 0, money.region_of(resources)
    prices = [price.usd for server in all_servers(resources) if (price := money.node_price(server.pod, region))]
    if limit is not None and (counted <= 0 or any(counted < price / 2 for price in prices)):
        of_list = f", list price ${max(prices):,.2f}" if prices else ""
        yield f"it counts a machine at ${counted:,.2f} an hour{of_list}"
    if limit is not None and not terms.get("warnat"):
        yield "it warns at no share of its limit"
    if not 0 < (number(terms.get("intervalseconds")) or 1) <= _LONGEST_TURN:
        yield f"it counts every {shown(terms.get('intervalseconds'))} seconds"
    watched = str(terms.get("namespace") or "")
    spaces = {server.pod.namespace for server in all_servers(resources)}
    if spaces and watched not in spaces:
        yield f"it counts namespace {watched}, where this stack has no server"
    yield from _rights(pod, resources, watched, (*_KEPT, *(_PAUSES if pauses else ())))
    mine = [resource for resource in of_kind(resources, "NetworkPolicy") if namespace_of(resource) == pod.namespace]
    if any(_bars(one) for one in mine) and not any(_lets_out(one, pod) for one in mine):
        yield f"no NetworkPolicy of {pod.namespace} lets it reach the API server"


def _terms(pod: Pod) -> Mapping[str, Any]:
    """The guard's configuration, with keys in lowercase without underscores; empty where it has none, or no program to read it."""
    words = [word for container in pod.containers for word in container.words]
    given = [word.partition("=")[2] for word in words if word.startswith("--config={")]
    if not given or not any(PAUSED_BY in word for word in words):
        return {}
    try:
        # The last one counts.
        found = json.loads(given[-1])
    except ValueError:
        return {}
    return {key.replace("_", "").lower(): value for key, value in mapped(found).items()}


def _rights(pod: Pod, resources: Sequence[Resource], watched: str, needed: Sequence[tuple[str, str]]) -> Iterator[str]:
    name = str(dig(pod.spec, "serviceAccountName") or "default")
    account = next(
        (
            resource
            for resource in of_kind(resources, "ServiceAccount")
            if (namespace_of(resource), own_name(resource)) == (pod.namespace, name)
        ),
        None,
    )
    token = dig(pod.spec, "automountServiceAccountToken")
    if account is None:
        yield f"the stack has no ServiceAccount {name} in {pod.namespace}"
    elif token is False or (token is None and dig(account.props, "automountServiceAccountToken") is False):
        yield "automountServiceAccountToken is false, and it calls the Kubernetes API"
    for space, pairs in (("", needed[:1]), (watched, needed[1:])):
        granted = {
            pair
            for binding in (*of_kind(resources, "RoleBinding"), *of_kind(resources, "ClusterRoleBinding"))
            if not space or binding.kind != "RoleBinding" or namespace_of(binding) == space
            if any(_is(subject, name, pod.namespace, binding) for subject in listed(dig(binding.props, "subjects")))
            for pair in _grants(binding, resources)
        }
        if missing := [f"{verb} {what}" for what, verb in pairs if not _covers(granted, what, verb)]:
            yield f"its account may not {', '.join(missing)}" + (f" in {space}" if space else "")


def _is(subject: Any, name: str, namespace: str, binding: Resource) -> bool:
    written = dig(subject, "namespace") or namespace_of(binding)
    return (dig(subject, "kind"), dig(subject, "name"), written) == ("ServiceAccount", name, namespace)


def _grants(binding: Resource, resources: Sequence[Resource]) -> Iterator[tuple[str, str]]:
    reference = dig(binding.props, "roleRef")
    kind, name = str(dig(reference, "kind")), dig(reference, "name")
    for role in of_kind(resources, kind):
        if own_name(role) == name and (kind != "Role" or namespace_of(role) == namespace_of(binding)):
            for rule in listed(dig(role.props, "rules")):
                # A pod has no name that a role could know.
                if has(rule, "resourceNames") and "pods" in listed(dig(rule, "resources")):
                    continue
                if not {"", "*"} & {str(group) for group in listed(dig(rule, "apiGroups"))}:
                    continue
                for what in listed(dig(rule, "resources")):
                    yield from ((str(what), str(verb)) for verb in listed(dig(rule, "verbs")))


def _covers(granted: set[tuple[str, str]], what: str, verb: str) -> bool:
    return any((one, to) in granted for one in (what, "*") for to in (verb, "*"))


def _bars(policy: Resource) -> bool:
    types = tuple(listed(dig(policy.props, "spec", "policyTypes")))
    return "Egress" in types or has(dig(policy.props, "spec"), "egress")


def _lets_out(policy: Resource, pod: Pod) -> bool:
    spec = dig(policy.props, "spec")
    ports = [tuple(dig(port, "port") for port in listed(dig(entry, "ports"))) for entry in listed(dig(spec, "egress"))]
    return selects(dig(spec, "podSelector"), pod.labels) and any(not port or API_PORT in port for port in ports)


def _endless(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.is_kubernetes or resource.kind != "Job":
        return
    spec = dig(resource.props, "spec")
    inside = dig(spec, "template", "spec", "activeDeadlineSeconds")
    if dig(spec, "activeDeadlineSeconds") is None and inside is None:
        yield finding("spec.activeDeadlineSeconds is missing")
    pods_of_it = (number(dig(spec, "completions")) or 1) if dig(spec, "completionMode") == "Indexed" else 1
    if (number(dig(spec, "backoffLimit")) or 0) > _MOST_RETRIES * pods_of_it:
        yield finding(f"spec.backoffLimit is {shown(dig(spec, 'backoffLimit'))}", write="backoffLimit: 6")


def _ignored(resource: Resource, _: Settings) -> Iterator[Finding]:
    watches = resource.type.startswith(_WATCHES)
    for path in resource.ignore_changes:
        if watches or path.startswith(_WATCHED_KEYS):
            yield finding(f"{resource.label}: ignoreChanges has {path}")


RULES: Final = (
    StackRule(
        name="spending-guard-weak",
        subject="cost",
        statement="A spending guard runs, counts the fleet at its price, and may do what it is for.",
        evidence="a guard with 0 replicas, without its rights or its way to the API server, or with a limit out of reach stops nothing, "
        "and the fleet serves on. Mandatory: it is the only thing that stops spending by itself",
        fix="the guard as this program makes it; a higher limit also in the stack's policy config",
        level="mandatory",
        severity="high",
        settings=(
            Setting(
                name="mostUsd",
                type="number",
                unit="USD",
                why="highest limit; set: a stack without a guard is a violation",
            ),
            Setting(
                name="pauses", type="boolean", default=False, why="Whether the guard must pause the fleet at its limit"
            ),
        ),
        judge=_weak,
    ),
    ResourceRule(
        name="job-without-end",
        subject="cost",
        statement="A Job has a deadline and a limited number of retries.",
        evidence="a Job that hangs, or fails and starts again, keeps its node until someone looks. Source: Kubernetes, Jobs. "
        "Advisory: the program inside may have a deadline of its own",
        fix="activeDeadlineSeconds",
        level="advisory",
        severity="medium",
        judge=_endless,
    ),
    ResourceRule(
        name="protection-ignored",
        subject="security",
        statement="Pulumi corrects what protects, limits or watches a fleet.",
        evidence="with ignoreChanges a quota, policy or alert that was changed or switched off in the console stays so, and the "
        "program's value is never applied. Source: Pulumi documentation, ignoreChanges. Mandatory: the program's text says otherwise",
        fix="remove the path from ignore_changes",
        level="mandatory",
        severity="high",
        judge=_ignored,
    ),
)
