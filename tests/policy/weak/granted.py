"""What is granted, in Google Cloud and in Kubernetes."""

from __future__ import annotations

import json
from typing import Any

from tests.policy.weak import rows

_BOT = "serviceAccount:bot@p.iam.gserviceaccount.com"
_POOL = "iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p.svc.id.goog"
_POD = f"principal://{_POOL}/subject/ns/vllm/sa/server"
_AGENT = "serviceAccount:service-1@container-engine-robot.iam.gserviceaccount.com"
_MEMBER, _BUCKET = "gcp:projects/iAMMember:IAMMember", "gcp:storage/bucketIAMMember:BucketIAMMember"
_RBAC = "kubernetes:rbac.authorization.k8s.io/v1:"
_CNRM = "kubernetes:iam.cnrm.cloud.google.com/v1beta1:"
_TOO_MUCH = (
    "owner", "editor", "admin", "writer", "storage.admin", "container.admin", "storage.objectAdmin", "storage.objectUser",
    "storage.objectViewer", "secretmanager.admin", "secretmanager.secretAccessor", "iam.serviceAccountTokenCreator",
    "iam.serviceAccountUser", "iam.serviceAccountKeyAdmin", "iam.workloadIdentityUser", "iam.securityAdmin", "iam.roleAdmin",
    "resourcemanager.projectIamAdmin", "compute.admin", "compute.instanceAdmin.v1", "compute.osAdminLogin", "container.developer",
    "container.clusterAdmin", "container.serviceAgent", "artifactregistry.writer", "cloudbuild.builds.editor", "run.developer",
    "cloudkms.cryptoKeyDecrypter", "deploymentmanager.editor", "iap.tunnelResourceAccessor",
)  # fmt: skip
_MANY = (
    "allUsers", "allAuthenticatedUsers", "domain:example.com", "projectEditor:p", "group:all@googlegroups.com",
    f"principalSet://{_POOL}/*", f"principalSet://{_POOL}/namespace/vllm",
    f"principalSet://{_POOL}/kubernetes.cluster/https://container.googleapis.com/v1/projects/p/locations/l/clusters/c",
    f"principalSet://{_POOL}/attribute.aud/x", "principalSet://cloudresourcemanager.googleapis.com/projects/1/type/ServiceAccount",
    f"principal://{_POOL}/subject/ns/vllm/sa/default", "serviceAccount:p.svc.id.goog[vllm/default]",
    "serviceAccount:p.svc.id.goog[vllm/*]", "serviceAccount:1-compute@developer.gserviceaccount.com",
    "serviceAccount:p@appspot.gserviceaccount.com",
)  # fmt: skip


def _grant(role: str, member: str = _BOT, **more: Any) -> dict[str, Any]:
    return {"role": f"roles/{role}", "member": member, **more}


def _policy(role: str, *members: str) -> dict[str, Any]:
    return {"policyData": json.dumps({"bindings": [{"role": f"roles/{role}", "members": members}]})}


def _binding(role: str, kind: str, name: str) -> dict[str, Any]:
    return {
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": kind, "name": name, "namespace": "vllm"}],
    }


def _rights(verbs: str, resources: str = "", urls: str = "", names: str = "", **metadata: Any) -> dict[str, Any]:
    rule: dict[str, Any] = {"verbs": verbs.split(), "resourceNames": names.split()}
    rule |= {"nonResourceURLs": urls.split()} if urls else {"apiGroups": ["*"], "resources": resources.split()}
    return {"metadata": {"name": "r", "namespace": "vllm", **metadata}, "rules": [rule]}


def _label(into: str) -> dict[str, Any]:
    return {"labels": {f"rbac.authorization.k8s.io/aggregate-to-{into}": "true"}}


WEAK = (
    *rows("broad-roles", _MEMBER, *((f"{role} for a machine", _grant(role)) for role in _TOO_MUCH)),
    *rows(
        "broad-roles",
        _MEMBER,
        ("storage.admin for a pod", _grant("storage.admin", _POD)),
        ("storage.admin for a pool", _grant("storage.admin", f"principalSet://{_POOL}/*")),
        ("storage.admin for a domain", _grant("storage.admin", "domain:example.com")),
        ("an agent's name in one's own project", _grant("owner", "serviceAccount:service-1@p.iam.gserviceaccount.com")),
        ("with a condition", _grant("owner", condition={"expression": "true"})),
    ),
    *rows("broad-roles", "gcp:projects/iAMBinding:IAMBinding", ("a binding", {"role": "roles/container.admin", "members": ["user:a@b.c", _BOT]})),
    *rows("broad-roles", "gcp:projects/iAMPolicy:IAMPolicy", ("a policy", _policy("storage.admin", _BOT))),
    *rows("broad-roles", "gcp:folder/iAMMember:IAMMember", ("a folder", _grant("container.admin"))),
    *rows("broad-roles", "gcp:organizations/iAMMember:IAMMember", ("an organization", _grant("iam.serviceAccountTokenCreator"))),
    *rows("broad-roles", _BUCKET, ("a bucket", _grant("storage.admin")), ("its owner", _grant("storage.legacyBucketOwner"))),
    *rows("broad-roles", "gcp:storage/bucketIAMPolicy:BucketIAMPolicy", ("a bucket's policy", _policy("storage.admin", _POD))),
    *rows(
        "broad-roles",
        "gcp:serviceaccount/iAMMember:IAMMember",
        ("another account's tokens", _grant("iam.serviceAccountTokenCreator", serviceAccountId="projects/p/serviceAccounts/other@p.iam.gserviceaccount.com")),
        ("an account's keys", _grant("iam.serviceAccountKeyAdmin")),
        ("an account itself", _grant("iam.serviceAccountAdmin")),
    ),
    *rows("broad-roles", "gcp:secretmanager/secretIamMember:SecretIamMember", ("a secret", _grant("secretmanager.admin"))),
    *rows(
        "broad-roles",
        "gcp:projects/iAMCustomRole:IAMCustomRole",
        *(
            (permission, {"permissions": ["storage.objects.get", permission]})
            for permission in (
                "storage.buckets.setIamPolicy", "resourcemanager.projects.setIamPolicy", "iam.serviceAccounts.actAs",
                "iam.serviceAccounts.getAccessToken", "iam.serviceAccounts.signJwt", "iam.serviceAccountKeys.create", "iam.roles.update",
                "container.secrets.list", "container.pods.exec", "container.clusterRoleBindings.create", "compute.instances.setMetadata",
            )
        ),
    ),
    *rows("broad-roles", "gcp:organizations/iAMCustomRole:IAMCustomRole", ("an organization's", {"permissions": ["iam.serviceAccounts.signBlob"]})),
    *rows(
        "broad-roles",
        f"{_CNRM}IAMPolicyMember",
        ("by Config Connector", {"spec": {"role": "roles/storage.admin", "member": _BOT, "resourceRef": {"kind": "Project"}}}),
    ),
    *rows(
        "broad-roles",
        f"{_CNRM}IAMPartialPolicy",
        ("by Config Connector's policy", {"spec": {"bindings": [{"role": "roles/owner", "members": [{"member": _BOT}]}], "resourceRef": {"kind": "Project"}}}),
    ),
    *rows("public-grant", _BUCKET, *((f"to {member}", _grant("storage.objectViewer", member)) for member in _MANY)),
    *rows("public-grant", "gcp:storage/bucketIAMPolicy:BucketIAMPolicy", *((f"policy for {one}", _policy("x", one)) for one in _MANY[4:8])),
    *rows("public-grant", "gcp:storage/bucketIAMBinding:BucketIAMBinding", ("the second of a binding", {"role": "r", "members": ["user:a@b.c", _MANY[7]]})),
    *rows("public-grant", "gcp:serviceaccount/iAMBinding:IAMBinding", ("whoever has no account", {"role": "roles/iam.workloadIdentityUser", "members": [_MANY[11]]})),
    *rows("public-grant", "gcp:storage/objectAccessControl:ObjectAccessControl", ("one object", {"entity": "allUsers"}), ("a domain", {"entity": "domain-b.c"})),
    *rows("public-grant", f"{_CNRM}IAMPolicyMember", ("by Config Connector", {"spec": {"role": "r", "member": "allUsers", "resourceRef": {"kind": "StorageBucket"}}})),
    *rows(
        "node-account-default",
        "gcp:container/nodePool:NodePool",
        *((email, {"nodeConfig": {"serviceAccount": email}}) for email in ("default", "1-compute@developer.gserviceaccount.com")),
    ),
    *rows(
        "broad-roles",
        "kubernetes:core/v1:ServiceAccount",
        ("pods as the default account", {"metadata": {"annotations": {"iam.gke.io/gcp-service-account": "1-compute@developer.gserviceaccount.com"}}}),
    ),
    *rows("long-lived-key", "gcp:storage/hmacKey:HmacKey", ("for buckets", {"serviceAccountEmail": "a"})),
    *rows("long-lived-key", "gcp:projects/apiKey:ApiKey", ("for every API", {"displayName": "k"})),
    *rows("long-lived-key", "kubernetes:core/v1:Secret", ("for the cluster", {"type": "kubernetes.io/service-account-token"})),
    *rows(
        "cluster-admin-bound",
        f"{_RBAC}ClusterRoleBinding",
        *(
            (f"{role} for {name}", _binding(role, kind, name))
            for role, kind, name in (
                ("edit", "Group", "system:authenticated"), ("edit", "Group", "system:unauthenticated"), ("view", "Group", "system:authenticated"),
                ("admin", "Group", "system:serviceaccounts"), ("view", "Group", "system:serviceaccounts:vllm"), ("view", "User", "system:anonymous"),
                ("secret-reader", "Group", "system:serviceaccounts"), ("anything", "Group", "system:masters"), ("view", "ServiceAccount", "default"),
                ("admin", "ServiceAccount", "server"), ("edit", "ServiceAccount", "server"), ("system:node", "ServiceAccount", "server"),
                ("edit", "User", "bot@p.iam.gserviceaccount.com"), ("edit", "Group", f"principalSet://{_POOL}/*"),
                ("cluster-admin", "User", "system:serviceaccount:vllm:server"),
            )
        ),
    ),
    *rows(
        "cluster-admin-bound",
        f"{_RBAC}RoleBinding",
        ("edit in a namespace", _binding("edit", "Group", "system:authenticated")),
        ("admin in a namespace", _binding("admin", "ServiceAccount", "server")),
    ),
    *rows(
        "cluster-admin-bound",
        f"{_RBAC}ClusterRole",
        ("everything", _rights("*", "*")),
        ("everything, named", _rights("*", "*", names="a")),
        ("escalate", _rights("escalate", "clusterroles", names="a")),
        ("bind", _rights("bind", "clusterroles")),
        ("impersonate", _rights("impersonate", "users groups serviceaccounts")),
        ("exec by get", _rights("get", "pods/exec")),
        ("exec in all kinds", _rights("create", "*/exec")),
        ("port-forward", _rights("create", "pods/portforward")),
        ("nodes' proxy", _rights("get", "nodes/proxy")),
        ("tokens of others", _rights("create", "serviceaccounts/token")),
        ("debugging containers", _rights("patch", "pods/ephemeralcontainers")),
        ("webhooks", _rights("update", "mutatingwebhookconfigurations")),
        ("certificates", _rights("update", "certificatesigningrequests/approval")),
        ("every path", _rights("get", urls="*")),
        ("writing paths", _rights("post", urls="/apis/x")),
        ("into edit", _rights("create", "pods", **_label("edit"))),
        ("secrets into view", _rights("get", "secrets", **_label("view"))),
        ("of every role", {"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}),
    ),
)  # fmt: skip

SOUND = (
    *rows(
        "broad-roles",
        _MEMBER,
        ("KEDA's", _grant("monitoring.viewer", f"principal://{_POOL}/subject/ns/keda/sa/keda-operator")),
        ("a node's", _grant("container.defaultNodeServiceAccount")),
        ("a tracer", _grant("cloudtrace.agent")),
        ("a person", _grant("owner", "user:a@b.c")),
        ("a group of people", _grant("container.admin", "group:platform@b.c")),
        ("an agent of Google", _grant("container.serviceAgent", _AGENT)),
        ("images that are read", _grant("artifactregistry.reader")),
    ),
    *rows(
        "broad-roles",
        _BUCKET,
        *((role, _grant(role, _POD)) for role in ("storage.objectViewer", "storage.objectCreator", "storage.objectUser")),
    ),
    *rows("broad-roles", "gcp:projects/iamMemberRemove:IamMemberRemove", ("a removal", _grant("editor"))),
    *rows("broad-roles", "gcp:secretmanager/secretIamMember:SecretIamMember", ("one secret", _grant("secretmanager.secretAccessor", _POD))),
    *rows(
        "broad-roles",
        "gcp:serviceaccount/iAMMember:IAMMember",
        ("a pod that acts as its account", _grant("iam.workloadIdentityUser", "serviceAccount:p.svc.id.goog[vllm/server]")),
        ("an account that signs", _grant("iam.serviceAccountTokenCreator", serviceAccountId="projects/p/serviceAccounts/bot@p.iam.gserviceaccount.com")),
    ),
    *rows("broad-roles", "gcp:projects/iAMCustomRole:IAMCustomRole", ("what is read", {"permissions": ["storage.objects.get", "monitoring.timeSeries.list"]})),
    *rows(
        "public-grant",
        _BUCKET,
        *(
            (member, _grant("storage.objectViewer", member))
            for member in (
                _POD, _BOT, _AGENT, "user:a@b.c", "group:platform@b.c", "serviceAccount:p.svc.id.goog[vllm/server]",
                "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/ci/attribute.repository/o/r",
            )
        ),
    ),
    *rows("public-grant", "gcp:iap/webIamMember:WebIamMember", ("a company behind Google's proxy", _grant("iap.httpsResourceAccessor", "domain:example.com"))),
    *rows("node-account-default", "gcp:container/nodePool:NodePool", ("an account of its own", {"nodeConfig": {"serviceAccount": "nodes@p.iam.gserviceaccount.com"}})),
    *rows("long-lived-key", "gcp:projects/apiKey:ApiKey", ("for one API", {"restrictions": {"apiTargets": [{"service": "maps"}]}})),
    *rows(
        "cluster-admin-bound",
        f"{_RBAC}ClusterRoleBinding",
        ("a person", _binding("cluster-admin", "User", "a@b.c")),
        ("a group of people", _binding("edit", "Group", "developers@b.c")),
        ("a pod that reads", _binding("view", "ServiceAccount", "server")),
        ("Kubernetes' own", _binding("system:discovery", "Group", "system:authenticated")),
        ("a guard's own role", _binding("spending-guard", "ServiceAccount", "spending-guard")),
    ),
    *rows(
        "cluster-admin-bound",
        f"{_RBAC}ClusterRole",
        ("pods that are read", _rights("get list watch", "pods")),
        ("a status", _rights("patch", "replicasets/status")),
        ("one account's tokens", _rights("create", "serviceaccounts/token", names="a")),
        ("metrics", _rights("get", urls="/metrics")),
        ("kinds of one's own into view", _rights("get list", "scaledobjects", **_label("view"))),
        ("of roles with a label", {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
    ),
)  # fmt: skip
