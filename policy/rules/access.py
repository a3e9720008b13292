"""What machine accounts may do, who reaches a namespace, and what the public can read."""

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
"""What a GKE node works with. Source: GKE documentation, least-privilege node service accounts."""
EVERYONE = ("allUsers", "allAuthenticatedUsers")
_ALL_OF_IT = (*BASIC_ROLES, "dmin", "legacyBucketOwner")
"""How roles end that may do everything with one resource: `roles/storage.admin`, `roles/storage.objectAdmin`."""
_MACHINES = ("serviceAccount:", "principal")
_BUCKET_GRANTS = "gcp:storage/bucketIAM"
_READS, _CREATES = "roles/storage.objectViewer", "roles/storage.objectCreator"
COMPILE_CACHE = "compile-cache"
"""Name of the container that stores what a server compiled."""
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
    """Name and URN of every namespace to judge, and whether the stack makes it.

    Of namespaces that others made only `default` counts, where pods stand in it: who guards the others cannot be seen
    from here.
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
    """Whether a policy denies a direction to all pods of its namespace until another one allows something."""
    spec = dig(policy.props, "spec")
    types = tuple(listed(dig(spec, "policyTypes"))) or ("Ingress", *(("Egress",) if has(spec, "egress") else ()))
    chosen = mapped(dig(spec, "podSelector"))
    everything = selects(chosen, {}) and not tuple(listed(dig(chosen, "matchExpressions")))
    return everything and direction in types and not tuple(listed(dig(spec, direction.lower())))


def _cache_writers(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    """Servers that run what lies in a bucket, by the option `--bucket` of the container that stores it. Releases side by side share a
    bucket, and each creates under its own key.
    """
    kept = list(_kept_caches(resources))
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
                    what=f"{grant.label} gives {role} on {bucket} to {member}, and {server.label} runs what lies there",
                    urn=grant.urn,
                )


def _kept_caches(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str, str, str]]:
    """Each server that keeps caches: their bucket, its pods' end of a principal, and the condition of its key."""
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
    """Long options and their values, whether they follow or are joined by an equals sign."""
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
        yield Finding(what=f"metadata.labels: pod-security.kubernetes.io/enforce is {level or 'left out'}")


def _members(resource: Resource) -> Iterator[str]:
    """Whom a grant names."""
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
                        what=f"{grant.label} gives {role} to a machine account, {member.partition(':')[2]}",
                        why="it may delete what it should use, and give others what it has",
                        fix="the role that reads, writes or pulls, and no more",
                        urn=grant.urn,
                    )
        # The role first: it is known before the accounts are.
        if not grant.type.startswith(PROJECT_GRANTS) or (role := str(dig(grant.props, "role") or "")) in allowed | {""}:
            continue
        nodes = {f"serviceAccount:{email}" for email in _node_accounts(resources)}
        for member in _members(grant):
            if member in nodes:
                yield Finding(
                    what=f"{grant.label} gives {role} to the nodes' account, {member.partition(':')[2]}", urn=grant.urn
                )
            elif role in BASIC_ROLES and member.startswith(_MACHINES):
                yield Finding(
                    what=f"{grant.label} gives {role} to a machine account, {member.partition(':')[2]}", urn=grant.urn
                )


def _is_grant_on_one(resource: Resource) -> bool:
    """Whether this grants something on one bucket, repository or secret, and not on a project or what contains projects."""
    kind = resource.kind.lower()
    return resource.type.startswith("gcp:") and "iam" in kind and not resource.type.startswith(PROJECT_GRANTS)


def _node_accounts(resources: Sequence[Resource]) -> Iterator[str]:
    for one in resources:
        for place in _account_places(one):
            if (email := dig(place, "serviceAccount")) is not None:
                yield str(email)


def _account_places(resource: Resource) -> Iterator[Any]:
    """Where a cluster or a node pool says which account its nodes have."""
    if resource.type == "gcp:container/cluster:Cluster":
        yield dig(resource.props, "clusterAutoscaling", "autoProvisioningDefaults")
        yield dig(resource.props, "nodeConfig")
    elif resource.type == "gcp:container/nodePool:NodePool":
        yield dig(resource.props, "nodeConfig")


def _default_account(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type == "gcp:container/cluster:Cluster":
        autopilot = dig(resource.props, "enableAutopilot") is True
        # Pools of their own say so themselves.
        if not autopilot and dig(resource.props, "removeDefaultNodePool") is True:
            return
        where = "clusterAutoscaling.autoProvisioningDefaults" if autopilot else "nodeConfig"
    elif resource.type == "gcp:container/nodePool:NodePool":
        where = "nodeConfig"
    else:
        return
    # Whether it is there, not what it is: before the first update the account's address is unknown.
    if not has(dig(resource.props, *where.split(".")), "serviceAccount"):
        yield Finding(what=f"{where}.serviceAccount is left out")


def _unnamed_rights(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.is_kubernetes or resource.kind not in ("Role", "ClusterRole"):
        return
    for index, rule in enumerate(listed(dig(resource.props, "rules"))):
        verbs = {str(verb) for verb in listed(dig(rule, "verbs"))}
        if tuple(listed(dig(rule, "resourceNames"))) and "*" not in verbs:
            continue
        for kind in map(str, listed(dig(rule, "resources"))):
            reads = verbs & {"get", "list", "watch"} if kind in ("*", "secrets") else set()
            # Pods are named when they are made; a status is its controller's, which writes it again.
            writes = verbs - {"get", "list", "watch"} if kind != "events" and not kind.endswith("/status") else set()
            if found := reads | (writes - {"delete", "deletecollection"} if kind == "pods" else writes):
                yield Finding(what=f"rules[{index}] lets its holder {', '.join(sorted(found))} every one of {kind}")


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
            what=f"publicAccessPrevention is {prevention or 'left out'}", fix="publicAccessPrevention: enforced"
        )
    if dig(resource.props, "uniformBucketLevelAccess") is not True:
        yield Finding(
            what="uniformBucketLevelAccess is not true",
            why="single objects can be made public beside the bucket's IAM; source: Cloud Storage documentation",
            fix="uniformBucketLevelAccess: true",
        )


RULES = (
    StackRule(
        name="broad-roles",
        subject="security",
        statement="The nodes' account has a node's roles, and no machine account owns a project or what it uses of one.",
        evidence="every pod of a node can ask for the node's token where Workload Identity is bypassed; owner and editor on a project read "
        "every bucket and secret of it. Source: GKE documentation, hardening. Mandatory: the roles a node needs are few and known",
        fix="roles/container.defaultNodeServiceAccount, and roles/artifactregistry.reader on the one repository",
        level="mandatory",
        severity="critical",
        settings=(
            Setting(
                name="nodeRoles",
                type="array",
                default=list(NODE_ROLES),
                why="Roles on the project that the nodes' account may have",
            ),
        ),
        judge=_broad_roles,
    ),
    Rule(
        name="node-account-default",
        subject="security",
        statement="Nodes run as an account of their own.",
        evidence="without one they run as the project's Compute Engine default account, which holds roles/editor unless the "
        "organisation took it away. Source: GKE documentation, least-privilege node service accounts. Mandatory: "
        "the node account cannot be changed later",
        fix="a service account with roles/container.defaultNodeServiceAccount",
        level="mandatory",
        severity="high",
        judge=_default_account,
    ),
    Rule(
        name="role-without-names",
        subject="security",
        statement="A role in the cluster writes objects that it names, and reads no secret that it does not.",
        evidence="who may write any workload runs any pod with any account of the namespace, who may write any quota buys machines or "
        "ends a pause of spending, and who lists secrets has them. Source: Kubernetes, RBAC good practices. Advisory: operators make "
        "objects whose names nobody knows before",
        fix="resourceNames; to create by name, a server-side apply",
        level="advisory",
        severity="high",
        judge=_unnamed_rights,
    ),
    StackRule(
        name="compile-cache-writers",
        subject="security",
        statement="Compiled kernels that servers run are created by pods of their own release, and changed by nobody.",
        evidence="a compile cache holds machine code and pickles: who may write it runs programs on every later server, with its prompts "
        "and its key. A pod of another release, or one that may replace an object, would outlive its own end there. Mandatory",
        fix="roles/storage.objectCreator for the release's own service account, on the condition of its key",
        level="mandatory",
        severity="critical",
        judge=_cache_writers,
    ),
    StackRule(
        name="namespace-without-network-policy",
        subject="security",
        statement="Each namespace denies what comes in until a NetworkPolicy allows it.",
        evidence="without one any pod of the cluster reaches port 8000, whose /tokenize, /invocations and /metrics no key guards. Source: "
        "Kubernetes, network policies; vLLM 0.18.1. Mandatory for namespaces that this stack makes, and for pods in "
        "`default`; who guards others' namespaces cannot be seen from here",
        fix="a NetworkPolicy with podSelector {} and policyTypes [Ingress, Egress], and one for each connection that is wanted",
        level="mandatory",
        severity="high",
        judge=_no_policy,
    ),
    StackRule(
        name="namespace-egress-open",
        subject="security",
        statement="Each namespace denies what goes out until a NetworkPolicy allows it.",
        evidence="a server that reads its weights from a volume needs nothing but DNS; prompts leave through what is left open. Advisory: "
        "some servers call tools",
        fix="Egress among the default deny's policyTypes",
        level="advisory",
        severity="medium",
        judge=_open_egress,
    ),
    Rule(
        name="namespace-without-pod-security",
        subject="security",
        statement="Each namespace enforces a Pod Security level.",
        evidence="the rules here judge what this program makes; the label also binds what somebody applies by hand. Source: "
        "Kubernetes, Pod Security Admission. Advisory: Autopilot has a floor of its own",
        fix="pod-security.kubernetes.io/enforce: restricted, or baseline where a chart's pods need it",
        level="advisory",
        severity="low",
        judge=_no_pod_security,
    ),
    Rule(
        name="public-grant",
        subject="security",
        statement="Nothing is granted to everyone.",
        evidence="allUsers is the internet, allAuthenticatedUsers anyone with a Google account, a whole workload pool every pod of the "
        "project; results name models, prompts and speeds. "
        "Source: Cloud Storage documentation, IAM. Mandatory: buckets are searched for",
        fix="name the principals",
        level="mandatory",
        severity="critical",
        judge=_public,
    ),
    Rule(
        name="bucket-can-become-public",
        subject="security",
        statement="A bucket cannot be made public.",
        evidence="with prevention enforced a later grant to allUsers is refused. Source: Cloud Storage documentation, public access "
        "prevention. Advisory: an organisation's policy may enforce it already",
        fix="publicAccessPrevention: enforced and uniformBucketLevelAccess: true",
        level="advisory",
        severity="medium",
        judge=_unprevented,
    ),
)
