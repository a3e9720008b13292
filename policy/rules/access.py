"""Rules for service accounts, namespaces and public access."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import money
from objects import namespace_of, of_kind, own_name, selects
from pods import pods
from rule import Finding, Resource, Rule, Setting, Settings, StackRule, dig, has, listed, mapped

SYSTEM_NAMESPACES = ("kube-", "gke-", "gmp-")
BASIC_ROLES = ("roles/owner", "roles/editor")
NODE_ROLES = (
    "roles/container.defaultNodeServiceAccount",
    "roles/artifactregistry.reader",
    "roles/logging.logWriter",
    "roles/monitoring.metricWriter",
    "roles/monitoring.viewer",
    "roles/autoscaling.metricsWriter",
    "roles/stackdriver.resourceMetadata.writer",
)
"""Roles of a GKE node. Source: GKE documentation, least-privilege node service accounts."""
EVERYONE = ("allUsers", "allAuthenticatedUsers")
_ALL_OF_IT = (*BASIC_ROLES, "dmin", "legacyBucketOwner")
"""Suffixes of roles with all rights on one resource: `roles/storage.admin`, `roles/storage.objectAdmin`."""
_MACHINES = ("serviceAccount:", "principal")
_BUCKET_GRANTS = "gcp:storage/bucketIAM"
_READS, _CREATES = "roles/storage.objectViewer", "roles/storage.objectCreator"
COMPILE_CACHE = "compile-cache"
"""Name of the container that uploads compiled kernels."""
PROJECT_GRANTS = ("gcp:projects/iAM", "gcp:folder/iAM", "gcp:organizations/iAM")


def _no_policy(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for name, urn, made_here in _namespaces(resources):
        mine = [one for one in of_kind(resources, "NetworkPolicy") if namespace_of(one) == name]
        if any(_denies(one, "Ingress") for one in mine):
            continue
        inside = [one for one in resources if pods(one) and namespace_of(one) == name]
        yield Finding(
            what=(f"Namespace {name}" if made_here else f"Namespace {name}, where this stack runs pods,")
            + (f" has {len(mine)} NetworkPolicies and no default deny of Ingress" if mine else " has no NetworkPolicy"),
            urn=urn,
            at_stake="; ".join(text for one in inside if (text := money.at_stake(one))),
        )


def _open_egress(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for name, urn, _made_here in _namespaces(resources):
        mine = [one for one in of_kind(resources, "NetworkPolicy") if namespace_of(one) == name]
        if mine and not any(_denies(one, "Egress") for one in mine):
            yield Finding(
                what=f"Namespace {name}: none of its {len(mine)} NetworkPolicies denies Egress by default", urn=urn
            )


def _namespaces(resources: Sequence[Resource]) -> Iterator[tuple[str, str, bool]]:
    """Name and URN of every namespace to check, and whether the stack creates it.

    Of other namespaces only `default` counts, where the stack runs pods in it: policies of other stacks are not visible.
    """
    made = {own_name(one): one for one in of_kind(resources, "Namespace", "core")}
    for name, one in made.items():
        if not name.startswith(SYSTEM_NAMESPACES):
            yield name, one.urn, True
    if "default" not in made:
        first = next(
            (one for one in resources if one.is_kubernetes and pods(one) and namespace_of(one) == "default"), None
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
        for grant in resources:
            if not grant.type.startswith(_BUCKET_GRANTS) or dig(grant.props, "bucket") != bucket:
                continue
            role = str(dig(grant.props, "role") or "")
            condition = dig(grant.props, "condition", "expression")
            for member in _members(grant):
                if role == _READS or (
                    role == _CREATES and any(member.endswith(one) and condition == its for one, its in own)
                ):
                    continue
                yield Finding(
                    what=f"{grant.label} grants {role} on {bucket} to {member}, and {server.label} runs code from it",
                    urn=grant.urn,
                )


def kept_caches(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str, str, str]]:
    """Each server with a cache: its bucket, the suffix of its pods' principal, and the IAM condition of its key."""
    for server in resources:
        for pod in pods(server):
            saver = next((one for one in pod.init_containers if one.name == COMPILE_CACHE), None)
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
        yield Finding(what=f"metadata.labels: pod-security.kubernetes.io/enforce is {level or 'missing'}")


def _members(resource: Resource) -> Iterator[str]:
    """Members of a grant."""
    if (one := dig(resource.props, "member")) is not None:
        yield str(one)
    yield from (str(one) for one in listed(dig(resource.props, "members")))


def _broad_roles(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    allowed = {str(role) for role in listed(settings["nodeRoles"])}
    for grant in resources:
        if _is_grant_on_one(grant) and (role := str(dig(grant.props, "role") or "")).endswith(_ALL_OF_IT):
            for member in _members(grant):
                if member.startswith(_MACHINES):
                    yield Finding(
                        what=f"{grant.label} grants {role} to a service account, {member.partition(':')[2]}",
                        why="the account can delete what it uses, and grant its access to others",
                        fix="a role that only reads, writes or pulls",
                        urn=grant.urn,
                    )
        # Role first: it is known in a preview, the accounts may not be.
        if not grant.type.startswith(PROJECT_GRANTS) or (role := str(dig(grant.props, "role") or "")) in allowed | {""}:
            continue
        nodes = {f"serviceAccount:{email}" for email in _node_accounts(resources)}
        for member in _members(grant):
            if member in nodes:
                yield Finding(
                    what=f"{grant.label} grants {role} to the nodes' account, {member.partition(':')[2]}", urn=grant.urn
                )
            elif role in BASIC_ROLES and member.startswith(_MACHINES):
                yield Finding(
                    what=f"{grant.label} grants {role} to a service account, {member.partition(':')[2]}", urn=grant.urn
                )


def _is_grant_on_one(resource: Resource) -> bool:
    """Whether this is a grant on one bucket, repository or secret, not on a project, folder or organization."""
    kind = resource.kind.lower()
    return resource.type.startswith("gcp:") and "iam" in kind and not resource.type.startswith(PROJECT_GRANTS)


def _node_accounts(resources: Sequence[Resource]) -> Iterator[str]:
    for one in resources:
        for place in _account_places(one):
            if (email := dig(place, "serviceAccount")) is not None:
                yield str(email)


def _account_places(resource: Resource) -> Iterator[Any]:
    """Where a cluster or node pool sets its nodes' account."""
    if resource.type == "gcp:container/cluster:Cluster":
        yield dig(resource.props, "clusterAutoscaling", "autoProvisioningDefaults")
        yield dig(resource.props, "nodeConfig")
    elif resource.type == "gcp:container/nodePool:NodePool":
        yield dig(resource.props, "nodeConfig")


def _default_account(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type == "gcp:container/cluster:Cluster":
        autopilot = dig(resource.props, "enableAutopilot") is True
        # Its node pools are checked instead.
        if not autopilot and dig(resource.props, "removeDefaultNodePool") is True:
            return
        where = "clusterAutoscaling.autoProvisioningDefaults" if autopilot else "nodeConfig"
    elif resource.type == "gcp:container/nodePool:NodePool":
        where = "nodeConfig"
    else:
        return
    # Presence only: before the first update the account's address is unknown.
    if not has(dig(resource.props, *where.split(".")), "serviceAccount"):
        yield Finding(what=f"{where}.serviceAccount is missing")


def _unnamed_rights(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.is_kubernetes or resource.kind not in ("Role", "ClusterRole"):
        return
    for index, rule in enumerate(listed(dig(resource.props, "rules"))):
        verbs = {str(verb) for verb in listed(dig(rule, "verbs"))}
        if tuple(listed(dig(rule, "resourceNames"))) and "*" not in verbs:
            continue
        for kind in map(str, listed(dig(rule, "resources"))):
            reads = verbs & {"get", "list", "watch"} if kind in ("*", "secrets") else set()
            # Pod names are generated; a status is rewritten by its controller.
            writes = verbs - {"get", "list", "watch"} if kind != "events" and not kind.endswith("/status") else set()
            if found := reads | (writes - {"delete", "deletecollection"} if kind == "pods" else writes):
                yield Finding(what=f"rules[{index}] allows {', '.join(sorted(found))} on all {kind}")


def _public(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.type.startswith("gcp:"):
        return
    found = [
        one for one in _members(resource) if one in EVERYONE or (one.startswith("principalSet:") and one.endswith("/*"))
    ]
    found += [one for one in EVERYONE if f'"{one}"' in str(dig(resource.props, "policyData") or "")]
    if resource.type.startswith("gcp:storage/"):
        entities = [str(dig(resource.props, "entity") or ""), *map(str, listed(dig(resource.props, "roleEntities")))]
        found += [one for one in EVERYONE if any(entity.rpartition(":")[2] == one for entity in entities)]
        for key in ("predefinedAcl", "defaultAcl"):
            acl = str(dig(resource.props, key) or "")
            found += [acl] if acl.startswith(("public", "authenticatedRead")) else []
    for who in dict.fromkeys(found):
        role = dig(resource.props, "role")
        yield Finding(what=f"{role or 'access'} is granted to {who}")


def _unprevented(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type != "gcp:storage/bucket:Bucket":
        return
    prevention = dig(resource.props, "publicAccessPrevention")
    if prevention != "enforced":
        yield Finding(
            what=f"publicAccessPrevention is {prevention or 'missing'}", fix="publicAccessPrevention: enforced"
        )
    if dig(resource.props, "uniformBucketLevelAccess") is not True:
        yield Finding(
            what="uniformBucketLevelAccess is not true",
            why="single objects can be made public despite the bucket's IAM; source: Cloud Storage documentation",
            fix="uniformBucketLevelAccess: true",
        )


RULES = (
    StackRule(
        name="broad-roles",
        subject="security",
        statement="Service accounts have no owner, editor or admin role, and the nodes' account has only node roles.",
        evidence="where Workload Identity is bypassed, every pod can get its node's token; owner and editor on a project read every "
        "bucket and secret. Source: GKE documentation, hardening. Mandatory: the roles that a node needs are few and known",
        fix="roles/container.defaultNodeServiceAccount, and roles/artifactregistry.reader on the one repository",
        level="mandatory",
        severity="critical",
        settings=(
            Setting(
                name="nodeRoles",
                type="array",
                default=list(NODE_ROLES),
                why="Project roles that the nodes' account may have",
            ),
        ),
        judge=_broad_roles,
    ),
    Rule(
        name="node-account-default",
        subject="security",
        statement="Nodes use a dedicated service account.",
        evidence="otherwise they use the Compute Engine default account, which has roles/editor unless the organization removed it. "
        "Source: GKE documentation, least-privilege node service accounts. Mandatory: the node account cannot be changed later",
        fix="a service account with roles/container.defaultNodeServiceAccount",
        level="mandatory",
        severity="high",
        judge=_default_account,
    ),
    Rule(
        name="role-without-names",
        subject="security",
        statement="A Kubernetes role names the objects it may write and the secrets it may read.",
        evidence="the right to write any workload runs pods under any service account of the namespace; to write any quota, buys machines "
        "or ends a spending pause; to list secrets, reads them. Source: Kubernetes, RBAC good practices. Advisory: operators create "
        "objects with names not known in advance",
        fix="resourceNames; to create by name, use server-side apply",
        level="advisory",
        severity="high",
        judge=_unnamed_rights,
    ),
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
        statement="Each namespace denies egress by default.",
        evidence="a server that reads its weights from a volume needs only DNS, and prompts can leave through any other egress. Advisory: "
        "some servers call tools",
        fix="add Egress to the default deny's policyTypes",
        level="advisory",
        severity="medium",
        judge=_open_egress,
    ),
    Rule(
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
    Rule(
        name="public-grant",
        subject="security",
        statement="No access is granted to the public.",
        evidence="allUsers is the internet, allAuthenticatedUsers anyone with a Google account, and a whole workload pool every pod of "
        "the project. Source: Cloud Storage documentation, IAM. Mandatory: public buckets are scanned for",
        fix="name the principals",
        level="mandatory",
        severity="critical",
        judge=_public,
    ),
    Rule(
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
