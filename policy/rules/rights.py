"""Rules for what accounts of Google Cloud and Kubernetes may do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from facts.finding import Finding
from facts.rights import TAKES_OVER, TAKES_OVER_A_PROJECT, breadth, is_default_account, reason
from grants import grants
from rule import Resource, ResourceRule, Setting, Settings, StackRule, dig, finding, has, known, listed
from tokens import API_KEY, CLUSTER, KEYS, NODE_POOL, RBAC, SECRET

NODE_ROLES: Final = (
    "roles/container.defaultNodeServiceAccount",
    "roles/artifactregistry.reader",
    "roles/logging.logWriter",
    "roles/monitoring.metricWriter",
    "roles/monitoring.viewer",
    "roles/autoscaling.metricsWriter",
    "roles/stackdriver.resourceMetadata.writer",
)
"""Roles of a GKE node. Source: GKE documentation, least-privilege node service accounts."""
_ROLES: Final = "roles/"
_AGENTS: Final = re.compile(
    r"serviceAccount:service-\d+@(?:container-engine-robot|compute-system|gcp-sa-[\w-]+)\.iam\.gserviceaccount\.com"
)
"""Accounts of Google's own services. Source: IAM documentation, service agents."""
_ADMINISTERS: Final = ("cluster-admin", "admin", "edit")
"""Roles of Kubernetes that read secrets and run pods as any account. Source: Kubernetes, default roles."""
_MANY: Final = re.compile(r"system:(?:authenticated|unauthenticated|anonymous|serviceaccounts(?::.+)?|masters|nodes)")
"""Users and groups that are everyone, all pods or an administrator. Source: Kubernetes, RBAC and authenticating."""
_DISCOVERY: Final = re.compile(r"system:(?:discovery|public-info-viewer|basic-user|service-account-issuer-discovery)")
"""Roles that Kubernetes itself gives to everyone. Source: Kubernetes, default roles."""
_BECOMES: Final = {
    "escalate": "gives itself rights that it does not have",
    "bind": "binds itself to any role",
    "impersonate": "acts as someone else",
}
"""Verbs beyond the objects. Source: Kubernetes, RBAC good practices, privilege escalation risks."""


def _broad_roles(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    of_nodes, agreed = ({str(one) for one in listed(settings[name])} for name in ("nodeRoles", "agreed"))
    nodes = {
        f"serviceAccount:{email}" for one in resources if (email := known(one.props, *_account(one), "serviceAccount"))
    }
    for grant in (grant for resource in resources for grant in grants(resource)):
        table = TAKES_OVER_A_PROJECT if grant.on_all else TAKES_OVER
        why = reason(table, grant.role.removeprefix(_ROLES)) if grant.role.startswith(_ROLES) else ""
        # Role first: it is known in a preview, the accounts may not be.
        if not why and (not grant.on_all or grant.role in of_nodes):
            continue
        for member in grant.members:
            who = member.partition(":")[2]
            if grant.on_all and member in nodes:
                if grant.role not in of_nodes:
                    yield finding(
                        f"{grant.resource.label} grants {grant.role} to the nodes' account, {who}",
                        urn=grant.resource.urn,
                    )
            elif why and _is_machine(member) and f"{grant.role} {member}" not in agreed:
                yield finding(
                    f"{grant.resource.label} grants {grant.role} to a service account, {who}",
                    why=why,
                    write="a role for what it does, on the one bucket, secret or repository that it uses",
                    urn=grant.resource.urn,
                )


def _is_machine(member: str) -> bool:
    return not _AGENTS.fullmatch(member) and member.startswith(("serviceAccount:", "principal"))


def _account(resource: Resource) -> tuple[str, ...]:
    """Where a cluster or node pool sets its nodes' account; a path that no other resource has."""
    autopilot = resource.type == CLUSTER and dig(resource.props, "enableAutopilot") is True
    return ("clusterAutoscaling", "autoProvisioningDefaults") if autopilot else ("nodeConfig",)


def _default_account(resource: Resource, _: Settings) -> Iterator[Finding]:
    # A Standard cluster without its default pool: its node pools are checked instead.
    without_nodes = dig(resource.props, "removeDefaultNodePool") is True
    if resource.type not in (CLUSTER, NODE_POOL) or without_nodes:
        return
    path = _account(resource)
    where = ".".join(path)
    # Before the first update the account's address is unknown.
    if not has(dig(resource.props, *path), "serviceAccount"):
        yield finding(f"{where}.serviceAccount is missing")
    elif is_default_account(email := str(known(resource.props, *path, "serviceAccount"))):
        yield finding(f"{where}.serviceAccount is {email}, the default account")


def _public(resource: Resource, _: Settings) -> Iterator[Finding]:
    for grant in grants(resource):
        for member in grant.members:
            # A whole company may use what Identity-Aware Proxy guards.
            guarded = grant.role == "roles/iap.httpsResourceAccessor" and member.startswith("domain:")
            if (who := breadth(member)) and not guarded:
                yield finding(f"{grant.role or 'access'} is granted to {member}, {who}")
    if resource.type.startswith("gcp:storage/"):
        entities = (dig(resource.props, "entity"), *listed(dig(resource.props, "roleEntities")))
        acls = (dig(resource.props, key) for key in ("predefinedAcl", "defaultAcl"))
        for one in map(str, (*entities, *acls)):
            if breadth(one.rpartition(":")[2]) or one.startswith(("public", "authenticatedRead")):
                yield finding(f"{dig(resource.props, 'role') or 'access'} is granted to {one}")


def _lasting_key(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type in KEYS:
        yield finding(f"{resource.label} is a key that lasts until it is deleted")
    elif resource.type == API_KEY and not has(dig(resource.props, "restrictions"), "apiTargets"):
        yield finding("restrictions.apiTargets is missing", write="restrictions: {apiTargets: [{service: ...}]}")
    elif resource.type == SECRET and dig(resource.props, "type") == "kubernetes.io/service-account-token":
        yield finding(
            "type is kubernetes.io/service-account-token", write="a token of the TokenRequest API, as pods get it"
        )


def _administrators(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.type.startswith(RBAC):
        return
    role = str(dig(resource.props, "roleRef", "name") or "")
    for index, subject in enumerate(listed(dig(resource.props, "subjects"))):
        kind, name = str(dig(subject, "kind")), str(dig(subject, "name") or "")
        many = bool(_MANY.fullmatch(name)) or (kind == "ServiceAccount" and name == "default")
        machine = kind == "ServiceAccount" or name.endswith("gserviceaccount.com")
        if (machine or many) and role in _ADMINISTERS:
            yield finding(f"subjects[{index}]: {kind} {name} becomes {role}")
        elif many and not _DISCOVERY.fullmatch(role):
            yield finding(
                f"subjects[{index}]: {kind} {name} gets {role}",
                why="this is everyone, every pod of a namespace or every pod without an account of its own. Source: Kubernetes, RBAC",
                write="one ServiceAccount, user or group",
            )
    for index, rule in enumerate(listed(dig(resource.props, "rules"))):
        yield from (finding(f"rules[{index}] {what}") for what in _becomes(rule))


def _becomes(rule: Any) -> Iterator[str]:
    verbs, kinds = ({str(one) for one in listed(dig(rule, key))} for key in ("verbs", "resources"))
    if "*" in verbs and "*" in kinds:
        yield "allows everything"
    for verb, what in _BECOMES.items():
        if verb in verbs and not tuple(listed(dig(rule, "resourceNames"))):
            yield f"allows {verb}: it {what}"


RULES: Final = (
    StackRule(
        name="broad-roles",
        subject="security",
        statement="No service account has a role by which it takes over a project or its data, and the nodes' account has only node roles.",
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
            Setting(
                name="agreed",
                type="array",
                default=[],
                why='Grants that stay, each as "ROLE MEMBER", such as a pipeline that deploys',
            ),
        ),
        judge=_broad_roles,
    ),
    ResourceRule(
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
    ResourceRule(
        name="long-lived-key",
        subject="security",
        statement="No account has a key that does not expire.",
        evidence="a key works from anywhere, for whoever has a copy, until it is deleted, and it lies in the state and in backups. Source: "
        "IAM documentation, best practices for service account keys. Mandatory: Workload Identity needs none",
        fix="Workload Identity: a grant for the pod's own account",
        level="mandatory",
        severity="high",
        judge=_lasting_key,
    ),
    ResourceRule(
        name="cluster-admin-bound",
        subject="security",
        statement="No service account or system group administers a cluster or a namespace, or can become who does.",
        evidence="an intruder in such a pod controls the cluster, its secrets and its nodes' accounts. Source: Kubernetes, RBAC good "
        "practices. Mandatory: serving does not need it",
        fix="a Role with only the required verbs and resources",
        level="mandatory",
        severity="critical",
        judge=_administrators,
    ),
    ResourceRule(
        name="public-grant",
        subject="security",
        statement="Access is granted to single workloads, people and managed groups, not to the public or to all of something.",
        evidence="allUsers is the internet, allAuthenticatedUsers anyone with a Google account, and a whole workload pool, cluster or "
        "namespace every pod in it. Source: IAM documentation, principal identifiers. Mandatory: public buckets are scanned for",
        fix="name the principals",
        level="mandatory",
        severity="critical",
        judge=_public,
    ),
)
