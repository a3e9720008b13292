"""Rules for what accounts of Google Cloud and Kubernetes may do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from facts.finding import Finding
from facts.rights import CNRM, ESCALATES, TAKES_OVER, TAKES_OVER_A_PROJECT, breadth, is_default_account, reason
from grants import Grant, grants
from objects import names_some
from rule import Resource, ResourceRule, Setting, Settings, StackRule, dig, finding, has, known, listed, mapped

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
_ROLES: Final = "roles/"
_MACHINES: Final = ("serviceAccount:", "principal")
_AGENTS: Final = re.compile(
    r"serviceAccount:service-\d+@(?:container-engine-robot|compute-system|gcp-sa-[\w-]+)\.iam\.gserviceaccount\.com"
)
"""Accounts of Google's own services. Source: IAM documentation, service agents."""
_RBAC: Final = "kubernetes:rbac.authorization.k8s.io/"
_ADMINISTERS: Final = re.compile(
    r"cluster-admin|admin|edit|system:(?:aggregate-to-(?:admin|edit)|node|kube-.+|controller:.+)"
)
"""Roles of Kubernetes that read secrets and run pods as any account, or more. Source: Kubernetes, default roles."""
_DISCOVERY: Final = (
    "system:discovery",
    "system:public-info-viewer",
    "system:basic-user",
    "system:service-account-issuer-discovery",
)
"""Roles that Kubernetes itself gives to everyone. Source: Kubernetes, default roles."""
_MANY: Final = re.compile(
    r"system:(?:authenticated|unauthenticated|anonymous|serviceaccounts(?::.+)?|masters|nodes)|\*"
)
"""Users and groups that are everyone, all pods or an administrator. Source: Kubernetes, RBAC and authenticating."""
_READS: Final = {"get", "list", "watch"}
_BECOMES: Final = {
    "escalate": "gives itself rights that it does not have",
    "bind": "binds itself to any role",
    "impersonate": "acts as someone else",
}
"""Verbs beyond the objects. Source: Kubernetes, RBAC good practices, privilege escalation risks."""
_INSIDE: Final = ("exec", "attach", "portforward", "proxy", "ephemeralcontainers", "token", "approval")
"""Subresources by which one enters pods, or gets another's token or certificate. Source: likewise."""
_AGGREGATES: Final = "rbac.authorization.k8s.io/aggregate-to-"


def _broad_roles(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    of_nodes = {str(role) for role in listed(settings["nodeRoles"])}
    agreed = {str(one) for one in listed(settings["agreed"])}
    for resource in resources:
        if resource.kind == "IAMCustomRole" and (found := _escalating(resource)):
            yield finding(
                f"{resource.label} has {', '.join(found)}",
                why="whoever has the role becomes another account, or reads every secret",
                write="permissions of single services, without these",
                urn=resource.urn,
            )
        acts_as = known(resource.props, "metadata", "annotations", "iam.gke.io/gcp-service-account")
        if resource.is_kubernetes and acts_as and (is_default_account(acts_as) or acts_as in _node_accounts(resources)):
            yield finding(
                f"{resource.label} acts as {acts_as}, which instances or nodes use",
                why="its pods get all that every node may do",
                write="a grant for the pods' own principal",
                urn=resource.urn,
            )
        for grant in grants(resource):
            # Role first: it is known in a preview, the accounts may not be.
            table = TAKES_OVER_A_PROJECT if grant.on_all else TAKES_OVER
            why = reason(table, grant.role.removeprefix(_ROLES)) if grant.role.startswith(_ROLES) else ""
            if not grant.role or (not why and (not grant.on_all or grant.role in of_nodes)):
                continue
            nodes = {f"serviceAccount:{email}" for email in _node_accounts(resources)} if grant.on_all else set()
            for member in grant.members:
                who = member.partition(":")[2]
                if member in nodes:
                    if grant.role not in of_nodes:
                        yield finding(
                            f"{resource.label} grants {grant.role} to the nodes' account, {who}", urn=resource.urn
                        )
                elif why and _is_machine(grant, member) and f"{grant.role} {member}" not in agreed:
                    yield finding(
                        f"{resource.label} grants {grant.role} to a service account, {who}",
                        why=why,
                        write="a role for what it does, on the one bucket, secret or repository that it uses",
                        urn=resource.urn,
                    )


def _escalating(resource: Resource) -> list[str]:
    return [one for one in map(str, listed(dig(resource.props, "permissions"))) if ESCALATES.fullmatch(one)]


def _is_machine(grant: Grant, member: str) -> bool:
    """Whether a role goes to a machine, or to more than one principal. A role on itself is how an account signs."""
    itself = str(dig(grant.resource.props, "serviceAccountId") or "").rpartition("/")[2]
    others = not _AGENTS.fullmatch(member) and (not itself or member != f"serviceAccount:{itself}")
    return others and (member.startswith(_MACHINES) or bool(breadth(member)))


def _node_accounts(resources: Sequence[Resource]) -> Iterator[str]:
    for resource in resources:
        for place in _account_places(resource):
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
    # Before the first update the account's address is unknown.
    if not has(dig(resource.props, *where.split(".")), "serviceAccount"):
        yield finding(f"{where}.serviceAccount is missing")
    elif is_default_account(email := str(known(resource.props, *where.split("."), "serviceAccount"))):
        yield finding(f"{where}.serviceAccount is {email}, the default account")


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
                yield finding(f"rules[{index}] allows {', '.join(sorted(found))} on all {kind}")


def _public(resource: Resource, _: Settings) -> Iterator[Finding]:
    for grant in grants(resource):
        for member in dict.fromkeys(grant.members):
            # A whole company may use what Identity-Aware Proxy guards.
            guarded = grant.role == "roles/iap.httpsResourceAccessor" and member.startswith("domain:")
            if (who := breadth(member)) and not guarded:
                yield finding(f"{grant.role or 'access'} is granted to {member}, {who}")
    if not resource.type.startswith("gcp:storage/"):
        return
    entities = [str(dig(resource.props, "entity") or ""), *map(str, listed(dig(resource.props, "roleEntities")))]
    found = [
        who
        for entity in entities
        if breadth(who := entity.rpartition(":")[2]) or who.startswith(("domain-", "project-"))
    ]
    for key in ("predefinedAcl", "defaultAcl"):
        acl = str(dig(resource.props, key) or "")
        found += [acl] if acl.startswith(("public", "authenticatedRead")) else []
    for one in dict.fromkeys(found):
        yield finding(f"{dig(resource.props, 'role') or 'access'} is granted to {one}")


def _lasting_key(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type in ("gcp:serviceaccount/key:Key", "gcp:storage/hmacKey:HmacKey"):
        yield finding(f"{resource.label} is a key that lasts until it is deleted")
    elif resource.type == "gcp:projects/apiKey:ApiKey" and not has(dig(resource.props, "restrictions"), "apiTargets"):
        yield finding("restrictions.apiTargets is missing", write="restrictions: {apiTargets: [{service: ...}]}")
    elif (
        resource.type == "kubernetes:core/v1:Secret"
        and dig(resource.props, "type") == "kubernetes.io/service-account-token"
    ):
        yield finding(
            "type is kubernetes.io/service-account-token", write="a token of the TokenRequest API, as pods get it"
        )
    elif resource.type.startswith(f"kubernetes:{CNRM}/") and resource.kind == "IAMServiceAccountKey":
        yield finding(f"{resource.label} is a key that lasts until it is deleted")


def _administrators(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.type.startswith(_RBAC):
        return
    if resource.kind in ("RoleBinding", "ClusterRoleBinding"):
        yield from _bound(resource)
    elif resource.kind in ("Role", "ClusterRole"):
        rules = tuple(listed(dig(resource.props, "rules")))
        for index, rule in enumerate(rules):
            yield from (finding(f"rules[{index}] {what}") for what in _becomes(rule))
        yield from _aggregated(resource, rules)


def _bound(binding: Resource) -> Iterator[Finding]:
    role = str(dig(binding.props, "roleRef", "name") or "")
    for index, subject in enumerate(listed(dig(binding.props, "subjects"))):
        kind, name = str(dig(subject, "kind")), str(dig(subject, "name") or "")
        many = bool(_MANY.fullmatch(name) or breadth(name)) or (kind == "ServiceAccount" and name == "default")
        machine = (
            kind == "ServiceAccount"
            or name.startswith(("system:", "principal"))
            or name.endswith("gserviceaccount.com")
        )
        if (machine or many) and _ADMINISTERS.fullmatch(role):
            yield finding(f"subjects[{index}]: {kind} {name} becomes {role}")
        elif many and role not in _DISCOVERY:
            yield finding(
                f"subjects[{index}]: {kind} {name} gets {role}",
                why="this is everyone, every pod of a namespace or every pod without an account of its own. Source: Kubernetes, RBAC",
                write="one ServiceAccount, user or group",
            )


def _becomes(rule: Any) -> Iterator[str]:
    verbs = {str(verb) for verb in listed(dig(rule, "verbs"))}
    kinds = [str(kind) for kind in listed(dig(rule, "resources"))]
    urls = [str(url) for url in listed(dig(rule, "nonResourceURLs"))]
    named = bool(tuple(listed(dig(rule, "resourceNames"))))
    if "*" in verbs and "*" in kinds:
        yield "allows everything"
    for verb, what in _BECOMES.items():
        if verb in verbs and not (named and verb != "escalate"):
            yield f"allows {verb}: it {what}"
    for kind in kinds:
        if kind.rpartition("/")[2] in _INSIDE and "/" in kind and not (named and kind.endswith("/token")):
            yield f"allows {kind}"
        elif (
            kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
            and verbs - _READS
            and not named
        ):
            yield f"allows to write all {kind}"
    for url in urls:
        if url in ("*", "/*") or verbs - {"get", "head"}:
            yield f"allows {', '.join(sorted(verbs))} on {url}"


def _aggregated(role: Resource, rules: Sequence[Any]) -> Iterator[Finding]:
    labels = mapped(dig(role.props, "metadata", "labels"))
    into = [str(key) for key in labels if str(key).startswith(_AGGREGATES) and str(dig(labels, key)).lower() == "true"]
    wider = [
        index
        for index, rule in enumerate(rules)
        if {str(verb) for verb in listed(dig(rule, "verbs"))} - _READS
        or {"*", "secrets"} & {str(kind) for kind in listed(dig(rule, "resources"))}
    ]
    if into and wider:
        yield finding(
            f"metadata.labels: {into[0]} gives rules[{wider[0]}] to everyone who has that role",
            write=f"remove {into[0]}, and bind the role to who needs it",
        )
    for index, selector in enumerate(listed(dig(role.props, "aggregationRule", "clusterRoleSelectors"))):
        if not names_some(selector):
            yield finding(f"aggregationRule.clusterRoleSelectors[{index}] collects the rules of every role")


RULES = (
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
