"""Rules for privileges, tokens and secrets of pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from facts.lessons.secrets_in_text import names_secret, secrets_in, secrets_in_files
from objects import SYSTEM_NAMESPACES, all_pods, by_key, named, namespace_of, of_kind, own_name, shown
from pods import Container, Pod, pods, servers
from rule import Finding, Resource, Rule, Setting, Settings, StackRule, dig, has, listed

AUTOPILOT_CAPABILITIES = frozenset(
    (
        "SETPCAP", "MKNOD", "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID",
        "NET_BIND_SERVICE", "SYS_CHROOT", "SETFCAP", "SYS_PTRACE",
    )
)  # fmt: skip
"""Source: GKE Autopilot security measures. NET_RAW and NET_ADMIN only where the cluster allows them."""
HOST_LOGS = "/var/log"
"""The only host path that Autopilot allows pods to read. Source: GKE Autopilot security measures."""
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


def _privileged(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in pods(resource):
        for one in pod.every_container:
            context = dig(one.props, "securityContext")
            if dig(context, "privileged") is True:
                yield Finding(what=f"{one.path}.securityContext.privileged is true")
            if dig(context, "procMount") == "Unmasked":
                yield Finding(what=f"{one.path}.securityContext.procMount is Unmasked", fix="remove procMount")
            added = [str(name).removeprefix("CAP_") for name in listed(dig(context, "capabilities", "add"))]
            if refused := sorted(set(added) - AUTOPILOT_CAPABILITIES):
                yield Finding(
                    what=f"{one.path}.securityContext.capabilities.add has {', '.join(refused)}",
                    fix="drop ALL and add none: vLLM needs no capability",
                )


def _host(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in pods(resource):
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if dig(pod.spec, key) is True:
                yield Finding(
                    what=f"{pod.spec_path}.{key} is true",
                    fix=f"remove {key}; for shared memory, use an emptyDir with medium Memory",
                )
        for index, volume in enumerate(listed(dig(pod.spec, "volumes"))):
            path = dig(volume, "hostPath", "path")
            if path is not None and not _reads_logs(pod, volume, str(path)):
                yield Finding(
                    what=f"{pod.spec_path}.volumes[{index}].hostPath.path is {path}",
                    fix="an emptyDir, or a PersistentVolumeClaim",
                )
        for one in pod.every_container:
            for index, port in enumerate(listed(dig(one.props, "ports"))):
                if dig(port, "hostPort"):
                    yield Finding(
                        what=f"{one.path}.ports[{index}].hostPort is {shown(dig(port, 'hostPort'))}",
                        fix="remove hostPort and use a Service",
                    )


def _reads_logs(pod: Pod, volume: Any, path: str) -> bool:
    mounts = [
        mount
        for one in pod.every_container
        for mount in listed(dig(one.props, "volumeMounts"))
        if dig(mount, "name") == dig(volume, "name")
    ]
    below = path.rstrip("/") == HOST_LOGS or path.startswith(f"{HOST_LOGS}/")
    return below and all(dig(mount, "readOnly") is True for mount in mounts)


def _root(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.kind == "DaemonSet" or _is_exception(resource, settings):
        return
    for pod in pods(resource):
        for one in pod.every_container:
            user, non_root = (_context(pod, one, key) for key in ("runAsUser", "runAsNonRoot"))
            if user == 0:
                yield Finding(what=f"{one.path} ({one.name}) runs as user 0")
            elif user is None and non_root is not True:
                yield Finding(
                    what=f"{one.path} ({one.name}) runs as its image's default user: runAsUser and runAsNonRoot are missing"
                )


def _context(pod: Pod, container: Container, key: str) -> Any:
    """A security setting of the container, else of its pod."""
    own = dig(container.props, "securityContext", key)
    return dig(pod.spec, "securityContext", key) if own is None else own


def _unrestricted(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.kind == "DaemonSet" or _is_exception(resource, settings):
        return
    for pod in pods(resource):
        for one in pod.every_container:
            context = dig(one.props, "securityContext")
            if dig(context, "allowPrivilegeEscalation") is not False:
                yield Finding(
                    what=f"{one.path}.securityContext.allowPrivilegeEscalation is not false",
                    fix="allowPrivilegeEscalation: false",
                )
            if dig(context, "readOnlyRootFilesystem") is not True:
                yield Finding(
                    what=f"{one.path}.securityContext.readOnlyRootFilesystem is not true",
                    why="an intruder can replace programs that run next",
                    fix="readOnlyRootFilesystem: true, and emptyDirs for what it writes",
                )
            if dig(_context(pod, one, "seccompProfile"), "type") == "Unconfined":
                yield Finding(
                    what=f"{one.path} ({one.name}) runs with the seccomp profile Unconfined",
                    fix="seccompProfile: {type: RuntimeDefault}",
                )
            if "ALL" not in tuple(listed(dig(context, "capabilities", "drop"))):
                yield Finding(
                    what=f"{one.path}.securityContext.capabilities.drop has no ALL", fix="capabilities: {drop: [ALL]}"
                )


def _tokens(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    accounts = by_key(resources, "ServiceAccount")
    for pod in all_pods(resources):
        name = str(dig(pod.spec, "serviceAccountName") or dig(pod.spec, "serviceAccount") or "default")
        for index, volume in enumerate(listed(dig(pod.spec, "volumes"))):
            projected = any(has(one, "serviceAccountToken") for one in listed(dig(volume, "projected", "sources")))
            serves = any(server.pod is pod for server in servers(pod.resource))
            if projected and (serves or not _has_rights(resources, pod.namespace, name)):
                yield Finding(
                    what=f"{named(pod.resource)}: {pod.spec_path}.volumes[{index}] projects a token of ServiceAccount {name}",
                    fix="remove the source serviceAccountToken",
                    urn=pod.resource.urn,
                )
        mounts = dig(pod.spec, "automountServiceAccountToken")
        account = accounts.get((pod.namespace, name))
        if mounts is None and account is not None:
            mounts = dig(account.props, "automountServiceAccountToken")
        if mounts is False or _is_exception(pod.resource, settings) or _has_rights(resources, pod.namespace, name):
            continue
        yield Finding(
            what=f"{named(pod.resource)}: {pod.spec_path}.automountServiceAccountToken is not false, and no role of this stack is "
            f"bound to ServiceAccount {name}",
            urn=pod.resource.urn,
        )


def _has_rights(resources: Sequence[Resource], namespace: str, account: str) -> bool:
    """Whether a role binding of this stack names the account."""
    return any(
        dig(subject, "kind") == "ServiceAccount"
        and dig(subject, "name") == account
        and str(dig(subject, "namespace") or namespace_of(one)) == namespace
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for one in of_kind(resources, kind)
        for subject in listed(dig(one.props, "subjects"))
    )


def _unseen_variables(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in dict.fromkeys(server.pod for server in servers(resource)):
        for one in pod.every_container:
            for index, source in enumerate(listed(dig(one.props, "envFrom"))):
                kind = "Secret" if has(source, "secretRef") else "ConfigMap"
                yield Finding(what=f"{one.path}.envFrom[{index}] makes a variable of every key of a {kind}")


def _in_part(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.is_kubernetes or namespace_of(resource).startswith(SYSTEM_NAMESPACES):
        return
    kind = resource.kind.removesuffix("Patch")
    if kind != resource.kind and kind not in UNJUDGED:
        yield Finding(
            what=f"{own_name(resource)} is a {resource.kind}, which changes a {kind} that these rules do not see"
        )
    elif resource.kind.endswith("List") and has(resource.props, "items"):
        yield Finding(
            what=f"{resource.kind} makes many objects, which these rules do not see", fix="one resource for each object"
        )


def _plain_secret(resource: Resource, _: Settings) -> Iterator[Finding]:
    # Providers need credentials, and Pulumi encrypts them in its state.
    if resource.type.startswith("pulumi:providers:"):
        return
    seen = set()
    for found in secrets_in(resource.props, SECRET_STORES.get(resource.type, ())):
        seen.add(found.path)
        yield Finding(what=f"{found.path} looks like {found.what}")
    if keys := FILES.get(resource.kind, ()) if resource.is_kubernetes else ():
        for key in keys:
            for found in secrets_in_files({key: resource.props[key]}) if has(resource.props, key) else ():
                if found.path not in seen:
                    yield Finding(what=f"{found.path} looks like {found.what}")
    for pod in pods(resource):
        for one in pod.every_container:
            for index, variable in enumerate(listed(dig(one.props, "env"))):
                if dig(variable, "valueFrom", "configMapKeyRef") is not None and names_secret(
                    str(dig(variable, "name"))
                ):
                    yield Finding(what=f"{one.path}.env[{index}], {dig(variable, 'name')}, comes from a ConfigMap")


RULES = (
    Rule(
        name="privileged-container",
        subject="security",
        statement="No container is privileged or adds capabilities that Autopilot refuses.",
        evidence="a privileged container controls its node, neighbors and weights included, and Autopilot refuses the pod. Source: GKE "
        "Autopilot security measures. Mandatory: serving does not need it",
        fix="remove privileged",
        level="mandatory",
        severity="critical",
        judge=_privileged,
    ),
    Rule(
        name="host-namespaces",
        subject="security",
        statement="No pod shares its host's network, processes, memory, ports or files.",
        evidence=f"they expose the node's metadata and other pods' traffic, and Autopilot refuses them except to read {HOST_LOGS}. "
        "Source: GKE Autopilot security measures. Mandatory: single-node serving does not need them",
        fix="remove it",
        level="mandatory",
        severity="critical",
        judge=_host,
    ),
    Rule(
        name="runs-as-root",
        subject="security",
        statement="Containers do not run as root.",
        evidence="vLLM's image defaults to root without needing it: what it reads is world-readable, and what it writes can be on a "
        "volume. Source: the project's non-root trial. Mandatory, with exceptions by name; DaemonSets (node agents) are not checked",
        fix="securityContext: {runAsNonRoot: true, runAsUser: 2000} and emptyDirs for what it writes",
        level="mandatory",
        severity="high",
        settings=(EXCEPTIONS,),
        judge=_root,
    ),
    Rule(
        name="container-not-restricted",
        subject="security",
        statement="Containers drop all capabilities, forbid privilege escalation and have a read-only root file system.",
        evidence="Kubernetes' restricted level requires the first two, and model servers run code that comes with models. Source: "
        "Kubernetes, Pod Security Standards. Advisory: for a non-root user the gain is small",
        fix="securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}",
        level="advisory",
        severity="medium",
        settings=(EXCEPTIONS,),
        judge=_unrestricted,
    ),
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
    Rule(
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
    Rule(
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
    Rule(
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
