"""The preview account's rights in the cluster: the program's kinds and no more, held against a real API server."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lab.control_plane.api import CONFIG_MAP, ApiRefusedError, Kind, Manifest
from tests.lab.shapes import ROOT, SHAPES, STACKS, manifests
from tests.support.waiting import within

if TYPE_CHECKING:
    from lab.control_plane.api import ClusterApi
    from lab.control_plane.cluster import ControlPlane

USER = "fleet-preview@project.iam.gserviceaccount.com"
NAMESPACE = "previewed"
FILE = list(yaml.safe_load_all((ROOT / ".github" / "preview-access.yaml").read_text(encoding="utf-8")))
ROLES = {one["metadata"]["name"]: one["rules"] for one in FILE if one["kind"] == "ClusterRole"}
DRY_RUN = {"get", "create", "patch"}
ASIDE = {"ClusterRole", "ClusterRoleBinding", "Namespace", "Role", "RoleBinding", "Secret"}
"""Kinds of the program that the account only reads."""
RBAC = "rbac.authorization.k8s.io"

Resource = tuple[str, str]
"""Group and plural."""


def plural(kind: str) -> str:
    lower = kind.lower()
    if lower.endswith("y") and lower[-2] not in "aeiou":
        return f"{lower[:-1]}ies"
    if lower.endswith("ss"):
        return f"{lower}es"
    return lower if lower.endswith("s") else f"{lower}s"


def made(*, namespaced: bool) -> set[Resource]:
    """Every kind that the program makes, whatever the settings, but for those aside."""
    return {
        (Kind.of(manifest).api_version.rpartition("/")[0], plural(manifest["kind"]))
        for name in (*STACKS, *SHAPES)
        for manifest in manifests(name)
        if manifest["kind"] not in ASIDE and ("namespace" in manifest["metadata"]) == namespaced
    }


def granted(role: str, verbs: set[str]) -> set[Resource]:
    """What a role grants with exactly these verbs."""
    return {
        (group, resource)
        for rule in ROLES[role]
        if set(rule["verbs"]) == verbs
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.slow
def test_the_roles_hold_every_kind_of_the_program_and_no_other() -> None:
    assert granted("fleet-preview", DRY_RUN) == made(namespaced=True)
    assert granted("fleet-preview-classes", DRY_RUN) == made(namespaced=False)


def test_what_is_no_kind_of_the_program_is_read_and_never_written() -> None:
    others = [
        (rule["apiGroups"], rule["resources"], set(rule["verbs"]))
        for rules in ROLES.values()
        for rule in rules
        if set(rule["verbs"]) != DRY_RUN
    ]
    assert all(verbs <= {"get", "list"} for _, _, verbs in others)
    assert granted("fleet-preview-secrets", {"get", "list"}) == {("", "secrets")} - granted("fleet-preview", {"list"})


def test_no_rule_has_a_wildcard_or_a_subresource() -> None:
    words = [word for rules in ROLES.values() for rule in rules for part in rule.values() for word in part]
    assert words
    assert not [word for word in words if "*" in word or "/" in word]


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane, custom_resources: object) -> Iterator[ClusterApi]:
    """The session's cluster with the file applied, bound as the guide says, and the bindings in force.

    The API server's authorizer reads bindings from a watch, so a new one holds a moment after it is written.
    """
    assert custom_resources
    api = control_plane.api
    subject = {"kind": "User", "apiGroup": RBAC, "name": USER}
    bindings: list[Manifest] = [
        _binding("ClusterRoleBinding", "fleet-preview-classes", subject),
        _binding("RoleBinding", "fleet-preview", subject),
    ]
    namespace: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for one in (namespace, *FILE, *bindings):
        api.apply(one)
    assert within(
        20, lambda: can(api, "list", "", "pods", NAMESPACE) and can(api, "get", "storage.k8s.io", "storageclasses")
    )
    yield api
    for one in (bindings[0], *reversed(FILE), namespace):
        api.delete(Kind.of(one), one["metadata"]["name"])


def _binding(kind: str, role: str, subject: Manifest) -> Manifest:
    metadata = {"name": role} | ({"namespace": NAMESPACE} if kind == "RoleBinding" else {})
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": reference,
        "subjects": [subject],
    }


def can(api: ClusterApi, verb: str, group: str, resource: str, namespace: str = "", name: str = "") -> bool:
    """`kubectl auth can-i`, for the preview account."""
    plural, _, subresource = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "namespace": namespace, "name": name}
    review: Manifest = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": USER,
            "groups": ["system:authenticated"],
            "resourceAttributes": asked | {"subresource": subresource},
        },
    }
    answer = api.raw("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=review)
    return bool(answer["status"]["allowed"])


@pytest.mark.slow
def test_every_kind_of_the_program_may_be_read_and_tried(api: ClusterApi) -> None:
    for verb in sorted(DRY_RUN):
        for namespaced in (True, False):
            where = NAMESPACE if namespaced else ""
            for group, resource in sorted(made(namespaced=namespaced)):
                assert can(api, verb, group, resource, where), (verb, group, resource)
    assert can(api, "get", "", "namespaces", NAMESPACE, NAMESPACE)
    for resource in ("clusterrolebindings", "clusterroles"):
        assert can(api, "get", RBAC, resource)
    assert can(api, "list", "", "pods", NAMESPACE)


@pytest.mark.slow
def test_the_names_in_the_roles_are_those_that_the_server_serves(api: ClusterApi) -> None:
    for name in (*STACKS, *SHAPES):
        for manifest in manifests(name):
            path = (
                f"/apis/{manifest['apiVersion']}" if "/" in manifest["apiVersion"] else f"/api/{manifest['apiVersion']}"
            )
            served = {found["name"]: found["kind"] for found in api.raw("GET", path)["resources"]}
            assert served[plural(manifest["kind"])] == manifest["kind"]


ESCALATIONS = [
    ("create", "", "serviceaccounts/token", NAMESPACE),
    ("create", "", "serviceaccounts/token", "kube-system"),
    ("create", "", "pods/exec", NAMESPACE),
    ("get", "", "pods/exec", NAMESPACE),
    ("create", "", "pods/ephemeralcontainers", NAMESPACE),
    ("patch", "", "pods/ephemeralcontainers", NAMESPACE),
    ("create", "", "pods/attach", NAMESPACE),
    ("create", "", "pods/portforward", NAMESPACE),
    ("create", "", "services/proxy", NAMESPACE),
    ("get", "", "nodes/proxy", ""),
    ("create", "", "pods", NAMESPACE),
    ("create", "", "pods", "kube-system"),
    ("create", "apps", "deployments", "kube-system"),
    ("create", "batch", "jobs", "kube-system"),
    ("patch", "apps", "daemonsets", "kube-system"),
    ("patch", "", "namespaces", NAMESPACE),
    ("get", "", "secrets", NAMESPACE),
    ("create", "", "secrets", NAMESPACE),
    ("list", "", "secrets", "kube-system"),
    ("get", "", "configmaps", "kube-system"),
    ("create", RBAC, "clusterroles", ""),
    ("patch", RBAC, "clusterroles", ""),
    ("escalate", RBAC, "clusterroles", ""),
    ("bind", RBAC, "clusterroles", ""),
    ("create", RBAC, "clusterrolebindings", ""),
    ("create", RBAC, "roles", NAMESPACE),
    ("create", RBAC, "rolebindings", NAMESPACE),
    ("impersonate", "", "users", ""),
    ("impersonate", "", "serviceaccounts", NAMESPACE),
    ("create", "certificates.k8s.io", "certificatesigningrequests", ""),
    ("patch", "certificates.k8s.io", "certificatesigningrequests/approval", ""),
    ("create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", ""),
    ("patch", "admissionregistration.k8s.io", "validatingadmissionpolicies", ""),
    ("patch", "", "nodes", ""),
    ("delete", "apps", "deployments", NAMESPACE),
    ("update", "apps", "deployments", NAMESPACE),
]


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "group", "resource", "namespace"), ESCALATIONS)
def test_nothing_that_leads_to_more_rights_is_allowed(
    api: ClusterApi, verb: str, group: str, resource: str, namespace: str
) -> None:
    assert not can(api, verb, group, resource, namespace)


@pytest.mark.slow
def test_secrets_are_read_only_where_the_third_role_is_bound(api: ClusterApi) -> None:
    subject = {"kind": "User", "apiGroup": RBAC, "name": USER}
    binding = _binding("RoleBinding", "fleet-preview-secrets", subject)
    api.apply(binding)
    try:
        assert within(20, lambda: can(api, "list", "", "secrets", NAMESPACE))
        assert not can(api, "patch", "", "secrets", NAMESPACE)
        assert not can(api, "get", "", "secrets", "kube-system")
    finally:
        api.delete(Kind.of(binding), "fleet-preview-secrets", NAMESPACE)


def config_map(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}}


@pytest.fixture
def as_account(api: ClusterApi, control_plane: ControlPlane) -> Iterator[ClusterApi]:
    """The cluster as the preview account reaches it."""
    from kubernetes import client, config

    class Impersonating(client.ApiClient):
        def update_params_for_auth(self, headers: dict[str, str], *others: Any, **named: Any) -> None:
            super().update_params_for_auth(headers, *others, **named)
            headers["Impersonate-User"] = USER

    assert api
    settings = client.Configuration()
    config.load_kube_config(config_file=str(control_plane.kubeconfig), client_configuration=settings)
    settings.no_proxy = "127.0.0.1"
    account = type(api)(Impersonating(settings))
    yield account
    account.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_dry_run_is_answered_and_a_real_write_is_refused(
    api: ClusterApi, as_account: ClusterApi, method: str
) -> None:
    folder = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    content_type = "application/apply-patch+yaml" if method == "PATCH" else "application/json"

    def refusal(query: str = "") -> str:
        """What the server says against this write of a new object; nothing where it takes it."""
        name = f"tried-{secrets.token_hex(4)}"
        path = folder if method == "POST" else f"{folder}/{name}"
        try:
            as_account.raw(
                method, f"{path}?fieldManager=pulumi{query}", body=config_map(name), content_type=content_type
            )
        except ApiRefusedError as error:
            assert api.get(CONFIG_MAP, name, NAMESPACE) is None
            return error.message
        return ""

    assert within(20, lambda: "fleet-preview-dry-run" in refusal())  # a policy takes a second to come into force
    assert refusal("&dryRun=All") == ""
    api.apply(config_map(f"written-{method.lower()}"))  # every other account writes as before
