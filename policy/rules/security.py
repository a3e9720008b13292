"""Rules for privileges, tokens and secrets of pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from facts.finding import Finding
from facts.secrets_in_text import names_secret, secrets_in, secrets_in_files
from objects import SYSTEM_NAMESPACES, all_pods, by_key, named, namespace_of, of_kind, own_name
from pods import pods, servers
from rule import Resource, ResourceRule, Setting, Settings, StackRule, dig, finding, has, listed

SECRET_STORES: Mapping[str, tuple[str, ...]] = {
    "kubernetes:core/v1:Secret": ("data", "stringData"),
    "gcp:secretmanager/secretVersion:SecretVersion": ("secretData", "secretDataWo"),
    "gcp:secretmanager/regionalSecretVersion:RegionalSecretVersion": ("secretData", "secretDataWo"),
}
"""Keys that may contain a secret; they are not read."""
UNJUDGED = ("Namespace", "Node", "ServiceAccount", "StorageClass")
"""Kinds of which parts are stated in earnest, such as labels; whole ones open nothing by themselves."""
FILES: Mapping[str, tuple[str, ...]] = {
    "ConfigMap": ("data", "binaryData"),
    "Release": ("values",),
    "Chart": ("values",),
}
"""Keys whose entries are settings: a secret among them is known by its name, too."""
EXCEPTIONS = Setting(name="exceptions", type="array", default=[], why="Names of workloads that cannot comply")


def _is_exception(resource: Resource, settings: Settings) -> bool:
    return own_name(resource) in tuple(listed(settings[EXCEPTIONS.name]))


def _tokens(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    accounts = by_key(resources, "ServiceAccount")
    for pod in all_pods(resources):
        name = str(dig(pod.spec, "serviceAccountName") or dig(pod.spec, "serviceAccount") or "default")
        for index, volume in enumerate(listed(dig(pod.spec, "volumes"))):
            projected = any(
                has(source, "serviceAccountToken") for source in listed(dig(volume, "projected", "sources"))
            )
            serves = any(server.pod is pod for server in servers(pod.resource))
            if projected and (serves or not _has_rights(resources, pod.namespace, name)):
                yield finding(
                    f"{named(pod.resource)}: {pod.spec_path}.volumes[{index}] projects a token of ServiceAccount {name}",
                    write="remove the source serviceAccountToken",
                    urn=pod.resource.urn,
                )
        mounts = dig(pod.spec, "automountServiceAccountToken")
        account = accounts.get((pod.namespace, name))
        if mounts is None and account is not None:
            mounts = dig(account.props, "automountServiceAccountToken")
        if mounts is False or _is_exception(pod.resource, settings) or _has_rights(resources, pod.namespace, name):
            continue
        yield finding(
            f"{named(pod.resource)}: {pod.spec_path}.automountServiceAccountToken is not false, and no role of this stack is "
            f"bound to ServiceAccount {name}",
            urn=pod.resource.urn,
        )


def _has_rights(resources: Sequence[Resource], namespace: str, account: str) -> bool:
    """Whether a role binding of this stack names the account."""
    return any(
        dig(subject, "kind") == "ServiceAccount"
        and dig(subject, "name") == account
        and str(dig(subject, "namespace") or namespace_of(resource)) == namespace
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for resource in of_kind(resources, kind)
        for subject in listed(dig(resource.props, "subjects"))
    )


def _unseen_variables(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in dict.fromkeys(server.pod for server in servers(resource)):
        for one in pod.every_container:
            for index, source in enumerate(listed(dig(one.props, "envFrom"))):
                kind = "Secret" if has(source, "secretRef") else "ConfigMap"
                yield finding(f"{one.path}.envFrom[{index}] makes a variable of every key of a {kind}")


def _in_part(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.is_kubernetes or namespace_of(resource).startswith(SYSTEM_NAMESPACES):
        return
    kind = resource.kind.removesuffix("Patch")
    if kind != resource.kind and kind not in UNJUDGED:
        yield finding(f"{own_name(resource)} is a {resource.kind}, which changes a {kind} that these rules do not see")
    elif resource.kind.endswith("List") and has(resource.props, "items"):
        yield finding(
            f"{resource.kind} makes many objects, which these rules do not see", write="one resource for each object"
        )


def _plain_secret(resource: Resource, _: Settings) -> Iterator[Finding]:
    # Providers need credentials, and Pulumi encrypts them in its state.
    if resource.type.startswith("pulumi:providers:"):
        return
    seen = set()
    for found in secrets_in(resource.props, SECRET_STORES.get(resource.type, ())):
        seen.add(found.path)
        yield finding(f"{found.path} looks like {found.what}")
    if keys := FILES.get(resource.kind, ()) if resource.is_kubernetes else ():
        for key in keys:
            for found in secrets_in_files({key: resource.props[key]}) if has(resource.props, key) else ():
                if found.path not in seen:
                    yield finding(f"{found.path} looks like {found.what}")
    for pod in pods(resource):
        for one in pod.every_container:
            for index, variable in enumerate(listed(dig(one.props, "env"))):
                if dig(variable, "valueFrom", "configMapKeyRef") is not None and names_secret(
                    str(dig(variable, "name"))
                ):
                    yield finding(f"{one.path}.env[{index}], {dig(variable, 'name')}, comes from a ConfigMap")


RULES = (
    StackRule(
        name="token-mounted-for-nothing",
        subject="security",
        statement="A pod that does not use the Kubernetes API mounts no token for it.",
        evidence="an intruder in a model server could use the token. Workload Identity and the Secret Manager driver do not need it in "
        "the pod. Source: Kubernetes, service accounts. Advisory: role bindings of other stacks are not visible here",
        fix="automountServiceAccountToken: false",
        level="advisory",
        severity="medium",
        settings=(EXCEPTIONS,),
        judge=_tokens,
    ),
    ResourceRule(
        name="object-stated-in-part",
        subject="security",
        statement="An object of Kubernetes is one resource, stated whole.",
        evidence="a DeploymentPatch or a RoleList changes what runs, and no rule sees the object that comes of it. Source: "
        "pulumi-kubernetes, server-side apply patches. Mandatory: it evades every other rule. Not asked of the system's namespaces, nor "
        f"of a {' or '.join(UNJUDGED)}",
        fix="the change in the object's own resource",
        level="mandatory",
        severity="high",
        judge=_in_part,
    ),
    ResourceRule(
        name="secret-in-plain-text",
        subject="security",
        statement="No property other than a Secret's contains a secret.",
        evidence="anyone who can read the object, its history or its manifest can read the secret; Pulumi encrypts only its own state. "
        "Mandatory: treat the secret as leaked. Its value is not shown",
        fix="use a Secret or Secret Manager, mounted as a file, and replace the leaked secret",
        level="mandatory",
        severity="critical",
        judge=_plain_secret,
    ),
    ResourceRule(
        name="server-variables-unseen",
        subject="security",
        statement="A model server names each of its variables.",
        evidence="with envFrom whoever writes the Secret or ConfigMap sets any variable of the server, LD_PRELOAD included, and the server "
        "gets secrets that it does not use; these rules see neither. Source: Kubernetes, EnvFromSource. Mandatory: it evades every rule "
        "about variables",
        fix="env, with valueFrom.secretKeyRef for each key that the server needs",
        level="mandatory",
        severity="high",
        judge=_unseen_variables,
    ),
)
