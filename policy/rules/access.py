"""Rules for namespaces, compile caches and buckets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import money
from addresses import is_wide, spans
from facts.finding import Finding
from grants import grants
from network_policies import blocks, policy_specs
from objects import SYSTEM_NAMESPACES, named, namespace_of, of_kind, own_name, selects
from pods import all_servers, pods
from rule import Resource, ResourceRule, Settings, StackRule, dig, finding, has, listed, mapped

_BUCKET_GRANTS = "gcp:storage/bucketIAM"
_READS, _CREATES = "roles/storage.objectViewer", "roles/storage.objectCreator"
COMPILE_CACHE = "compile-cache"
"""Name of the container that uploads compiled kernels."""


def _no_policy(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for name, urn, made_here in _namespaces(resources):
        mine = [resource for resource in of_kind(resources, "NetworkPolicy") if namespace_of(resource) == name]
        if any(_denies(one, "Ingress") for one in mine):
            continue
        inside = [resource for resource in resources if pods(resource) and namespace_of(resource) == name]
        yield finding(
            (f"Namespace {name}" if made_here else f"Namespace {name}, where this stack runs pods,")
            + (f" has {len(mine)} NetworkPolicies and no default deny of Ingress" if mine else " has no NetworkPolicy"),
            urn=urn,
            at_stake="; ".join(text for one in inside if (text := money.at_stake(one))),
        )


def _open_egress(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for name, urn, _made_here in _namespaces(resources):
        mine = [resource for resource in of_kind(resources, "NetworkPolicy") if namespace_of(resource) == name]
        if mine and not any(_denies(one, "Egress") for one in mine):
            yield finding(
                f"Namespace {name}: none of its {len(mine)} NetworkPolicies denies Egress by default", urn=urn
            )
    for server in all_servers(resources):
        # Another server downloads its model itself.
        for resource in resources if (server.flags.model or "").startswith("/") else ():
            if namespace_of(resource) == server.pod.namespace and _leads_out(resource, server.pod.labels):
                yield finding(
                    f"{named(resource)} lets {server.label} reach the internet",
                    write="egress to the services that it calls, by range or name",
                    urn=resource.urn,
                )


def _leads_out(policy: Resource, labels: Mapping[str, Any]) -> bool:
    """Whether a network policy lets pods with these labels reach most of the internet."""
    return any(
        selects(dig(spec, "podSelector"), labels)
        and is_wide(spans(part for entry in listed(dig(spec, "egress")) for part in blocks(entry, "to")))
        for _path, spec in policy_specs(policy)
    )


def _namespaces(resources: Sequence[Resource]) -> Iterator[tuple[str, str, bool]]:
    """Name and URN of every namespace to check, and whether the stack creates it.

    Of other namespaces only `default` counts, where the stack runs pods in it: policies of other stacks are not visible.
    """
    made = {own_name(resource): resource for resource in of_kind(resources, "Namespace", "core")}
    for name, one in made.items():
        if not name.startswith(SYSTEM_NAMESPACES):
            yield name, one.urn, True
    if "default" not in made:
        first = next(
            (
                resource
                for resource in resources
                if resource.is_kubernetes and pods(resource) and namespace_of(resource) == "default"
            ),
            None,
        )
        if first is not None:
            yield "default", first.urn, False


def _denies(policy: Resource, direction: str) -> bool:
    """Whether a policy is a default deny of a direction for its namespace."""
    spec = dig(policy.props, "spec")
    types = tuple(listed(dig(spec, "policyTypes"))) or ("Ingress", *(("Egress",) if has(spec, "egress") else ()))
    chosen = mapped(dig(spec, "podSelector"))
    everything = selects(chosen, {}) and not tuple(listed(dig(chosen, "matchExpressions")))
    return everything and direction in types and not tuple(listed(dig(spec, direction.lower())))


def _cache_writers(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    """Finds caches by the option `--bucket` of the container that uploads them. Releases share a bucket, each with its own key prefix."""
    kept = list(kept_caches(resources))
    own = {(subject, condition) for _, _, subject, condition in kept}
    for server, bucket, _subject, _condition in kept:
        for resource in resources:
            if not resource.type.startswith(_BUCKET_GRANTS) or dig(resource.props, "bucket") != bucket:
                continue
            for grant in grants(resource):
                for member in grant.members:
                    creates = any(member.endswith(subject) and grant.condition == its for subject, its in own)
                    if grant.role == _READS or (grant.role == _CREATES and creates):
                        continue
                    yield finding(
                        f"{resource.label} grants {grant.role} on {bucket} to {member}, and {server.label} runs code from it",
                        urn=resource.urn,
                    )


def kept_caches(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str, str, str]]:
    """Each server with a cache: its bucket, the suffix of its pods' principal, and the IAM condition of its key."""
    for server in resources:
        for pod in pods(server):
            saver = next((container for container in pod.init_containers if container.name == COMPILE_CACHE), None)
            options = _options(saver.words) if saver else {}
            if {"bucket", "key"} <= options.keys():
                bucket = options["bucket"]
                subject = f"/subject/ns/{namespace_of(server)}/sa/{dig(pod.spec, 'serviceAccountName')}"
                yield (
                    server,
                    bucket,
                    subject,
                    (f"resource.name.startsWith('projects/_/buckets/{bucket}/objects/{options['key']}/')"),
                )


def _options(words: Sequence[str]) -> dict[str, str]:
    """Long options and their values, as `--name value` or `--name=value`."""
    found: dict[str, str] = {}
    for word, after in zip(words, (*words[1:], ""), strict=False):
        if word.startswith("--"):
            name, joined, value = word[2:].partition("=")
            found[name] = value if joined else after
    return found


def _no_pod_security(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.is_kubernetes or resource.kind != "Namespace" or own_name(resource).startswith(SYSTEM_NAMESPACES):
        return
    level = dig(resource.props, "metadata", "labels", "pod-security.kubernetes.io/enforce")
    if level not in ("baseline", "restricted"):
        yield finding(f"metadata.labels: pod-security.kubernetes.io/enforce is {level or 'missing'}")


def _unprevented(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type != "gcp:storage/bucket:Bucket":
        return
    prevention = dig(resource.props, "publicAccessPrevention")
    if prevention != "enforced":
        yield finding(f"publicAccessPrevention is {prevention or 'missing'}", write="publicAccessPrevention: enforced")
    if dig(resource.props, "uniformBucketLevelAccess") is not True:
        yield finding(
            "uniformBucketLevelAccess is not true",
            why="single objects can be made public despite the bucket's IAM; source: Cloud Storage documentation",
            write="uniformBucketLevelAccess: true",
        )


RULES = (
    StackRule(
        name="compile-cache-writers",
        subject="security",
        statement="Only a release's own pods create its compile cache, and no account can replace cached objects.",
        evidence="a compile cache contains machine code and pickles: write access runs code on every later server, with its prompts "
        "and its key. Mandatory",
        fix="roles/storage.objectCreator for the release's own service account, conditional on its key",
        level="mandatory",
        severity="critical",
        judge=_cache_writers,
    ),
    StackRule(
        name="namespace-without-network-policy",
        subject="security",
        statement="Each namespace denies ingress by default.",
        evidence="otherwise any pod of the cluster reaches port 8000, where no key guards /tokenize, /invocations and /metrics. Source: "
        "Kubernetes, network policies; vLLM 0.18.1. Mandatory for this stack's namespaces and its pods in `default`; other stacks' "
        "namespaces are not checked",
        fix="a NetworkPolicy with podSelector {} and policyTypes [Ingress, Egress], and one for each allowed connection",
        level="mandatory",
        severity="high",
        judge=_no_policy,
    ),
    StackRule(
        name="namespace-egress-open",
        subject="security",
        statement="Each namespace denies egress by default, and no policy lets model servers reach the whole internet.",
        evidence="a server that reads its weights from a volume needs only DNS, and prompts can leave through any other egress. Advisory: "
        "some servers call tools",
        fix="add Egress to the default deny's policyTypes",
        level="advisory",
        severity="medium",
        judge=_open_egress,
    ),
    ResourceRule(
        name="namespace-without-pod-security",
        subject="security",
        statement="Each namespace enforces a Pod Security level.",
        evidence="these rules check only what this program creates; the label also covers what is applied manually. Source: Kubernetes, "
        "Pod Security Admission. Advisory: Autopilot enforces its own minimum",
        fix="pod-security.kubernetes.io/enforce: restricted, or baseline where a chart's pods need it",
        level="advisory",
        severity="low",
        judge=_no_pod_security,
    ),
    ResourceRule(
        name="bucket-can-become-public",
        subject="security",
        statement="A bucket cannot be made public.",
        evidence="with prevention enforced, Google refuses a later grant to allUsers. Source: Cloud Storage documentation, public access "
        "prevention. Advisory: an organization policy may enforce it already",
        fix="publicAccessPrevention: enforced and uniformBucketLevelAccess: true",
        level="advisory",
        severity="medium",
        judge=_unprevented,
    ),
)
