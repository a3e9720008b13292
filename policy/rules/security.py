"""What a pod may do to its node and what it carries for nothing, and secrets that anyone may read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from objects import all_pods, by_key, named, namespace_of, of_kind, own_name, shown
from pods import Container, Pod, pods
from rule import Finding, Resource, Rule, Setting, Settings, StackRule, dig, listed
from settings.rules.secrets_in_text import secrets_in

AUTOPILOT_CAPABILITIES = frozenset(
    (
        "SETPCAP", "MKNOD", "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID",
        "NET_BIND_SERVICE", "SYS_CHROOT", "SETFCAP", "SYS_PTRACE",
    )
)  # fmt: skip
"""Source: GKE Autopilot security measures. NET_RAW and NET_ADMIN only where the cluster allows them."""
HOST_LOGS = "/var/log"
"""The one host path that Autopilot lets a pod read. Source: GKE Autopilot security measures."""
SECRET_STORES: Mapping[str, tuple[str, ...]] = {
    "kubernetes:core/v1:Secret": ("data", "stringData"),
    "gcp:secretmanager/secretVersion:SecretVersion": ("secretData",),
    "gcp:secretmanager/regionalSecretVersion:RegionalSecretVersion": ("secretData",),
}
"""Where a secret belongs: these keys of these resources are not read."""
EXCEPTIONS = Setting(
    name="exceptions", type="array", default=[], why="Names of workloads in the cluster for which it cannot be avoided"
)


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.init_containers, *pod.containers)


def _is_exception(resource: Resource, settings: Settings) -> bool:
    return own_name(resource) in tuple(listed(settings[EXCEPTIONS.name]))


def _privileged(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in pods(resource):
        for one in _containers(pod):
            context = dig(one.props, "securityContext")
            if dig(context, "privileged") is True:
                yield Finding(what=f"{one.path}.securityContext.privileged is true")
            if dig(context, "procMount") == "Unmasked":
                yield Finding(what=f"{one.path}.securityContext.procMount is Unmasked", fix="remove procMount")
            added = [str(name).removeprefix("CAP_") for name in listed(dig(context, "capabilities", "add"))]
            if refused := sorted(set(added) - AUTOPILOT_CAPABILITIES):
                yield Finding(
                    what=f"{one.path}.securityContext.capabilities.add has {', '.join(refused)}",
                    fix="drop ALL and add nothing: vLLM needs no capability",
                )


def _host(resource: Resource, _: Settings) -> Iterator[Finding]:
    for pod in pods(resource):
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            if dig(pod.spec, key) is True:
                yield Finding(
                    what=f"{pod.spec_path}.{key} is true", fix=f"remove {key}; shared memory is an emptyDir in memory"
                )
        for index, volume in enumerate(listed(dig(pod.spec, "volumes"))):
            path = dig(volume, "hostPath", "path")
            if path is not None and not _reads_logs(pod, volume, str(path)):
                yield Finding(
                    what=f"{pod.spec_path}.volumes[{index}].hostPath.path is {path}",
                    fix="an emptyDir, or a PersistentVolumeClaim",
                )
        for one in _containers(pod):
            for index, port in enumerate(listed(dig(one.props, "ports"))):
                if dig(port, "hostPort"):
                    yield Finding(
                        what=f"{one.path}.ports[{index}].hostPort is {shown(dig(port, 'hostPort'))}",
                        fix="remove hostPort; a Service finds the pods",
                    )


def _reads_logs(pod: Pod, volume: Any, path: str) -> bool:
    mounts = [
        mount
        for one in _containers(pod)
        for mount in listed(dig(one.props, "volumeMounts"))
        if dig(mount, "name") == dig(volume, "name")
    ]
    below = path.rstrip("/") == HOST_LOGS or path.startswith(f"{HOST_LOGS}/")
    return below and all(dig(mount, "readOnly") is True for mount in mounts)


def _root(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.kind == "DaemonSet" or _is_exception(resource, settings):
        return
    for pod in pods(resource):
        for one in _containers(pod):
            user, non_root = (_context(pod, one, key) for key in ("runAsUser", "runAsNonRoot"))
            if user == 0:
                yield Finding(what=f"{one.path} ({one.name}) runs as user 0")
            elif user is None and non_root is not True:
                yield Finding(
                    what=f"{one.path} ({one.name}) runs as whatever user its image names: neither runAsUser nor runAsNonRoot is set"
                )


def _context(pod: Pod, container: Container, key: str) -> Any:
    """A security setting: the container's own, or its pod's."""
    own = dig(container.props, "securityContext", key)
    return dig(pod.spec, "securityContext", key) if own is None else own


def _unrestricted(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.kind == "DaemonSet" or _is_exception(resource, settings):
        return
    for pod in pods(resource):
        for one in _containers(pod):
            context = dig(one.props, "securityContext")
            if dig(context, "allowPrivilegeEscalation") is not False:
                yield Finding(
                    what=f"{one.path}.securityContext.allowPrivilegeEscalation is not false",
                    fix="allowPrivilegeEscalation: false",
                )
            if dig(context, "readOnlyRootFilesystem") is not True:
                yield Finding(
                    what=f"{one.path}.securityContext.readOnlyRootFilesystem is not true",
                    why="what breaks in can replace the programs that run next",
                    fix="readOnlyRootFilesystem: true, and emptyDirs where it writes",
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
        name = str(dig(pod.spec, "serviceAccountName") or "default")
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
    """Whether a binding of this stack gives the account rights in Kubernetes' API, so that its token is of use."""
    return any(
        dig(subject, "kind") == "ServiceAccount"
        and dig(subject, "name") == account
        and str(dig(subject, "namespace") or namespace_of(one)) == namespace
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for one in of_kind(resources, kind)
        for subject in listed(dig(one.props, "subjects"))
    )


def _plain_secret(resource: Resource, _: Settings) -> Iterator[Finding]:
    # A provider has to be given its credentials, and Pulumi encrypts them in its state.
    if resource.type.startswith("pulumi:providers:"):
        return
    for found in secrets_in(resource.props, SECRET_STORES.get(resource.type, ())):
        yield Finding(what=f"{found.path} looks like {found.what}")


RULES = (
    Rule(
        name="privileged-container",
        subject="security",
        statement="No container is privileged or adds capabilities that Autopilot refuses.",
        evidence="a privileged container owns its node, weights and neighbours included, and Autopilot refuses the pod. Source: GKE "
        "Autopilot security measures. Mandatory: nothing in serving needs it",
        fix="remove privileged",
        level="mandatory",
        severity="critical",
        judge=_privileged,
    ),
    Rule(
        name="host-namespaces",
        subject="security",
        statement="No pod shares its host's network, processes, memory, ports or files.",
        evidence="through them a pod reaches the node's metadata and every other pod's traffic, and Autopilot refuses it (it reads "
        f"{HOST_LOGS} at most). Source: GKE Autopilot security measures. Mandatory: single-node serving needs none of it",
        fix="remove it",
        level="mandatory",
        severity="critical",
        judge=_host,
    ),
    Rule(
        name="runs-as-root",
        subject="security",
        statement="Containers run as a user that is not root.",
        evidence="vLLM's image runs as root by itself and needs it for nothing: all it reads is world-readable, all it writes can be on a "
        "volume. Source: the project's non-root trial. Mandatory, with exceptions by name; node agents (DaemonSets) are not judged",
        fix="securityContext: {runAsNonRoot: true, runAsUser: 2000} and emptyDirs where it writes",
        level="mandatory",
        severity="high",
        settings=(EXCEPTIONS,),
        judge=_root,
    ),
    Rule(
        name="container-not-restricted",
        subject="security",
        statement="Containers give up escalation, all capabilities, and writing to their image.",
        evidence="Kubernetes' restricted level asks for the first two, and model servers run code that comes with models. Source: "
        "Kubernetes, Pod Security Standards. Advisory: as another user than root they gain little",
        fix="securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}",
        level="advisory",
        severity="medium",
        settings=(EXCEPTIONS,),
        judge=_unrestricted,
    ),
    StackRule(
        name="token-mounted-for-nothing",
        subject="security",
        statement="A pod that never talks to Kubernetes' API carries no token for it.",
        evidence="whoever breaks into a model server finds the token. Workload Identity and the Secret Manager driver need none in "
        "the pod. Source: Kubernetes, service accounts. Advisory: rights that other stacks bind to the account are not seen from here",
        fix="automountServiceAccountToken: false",
        level="advisory",
        severity="medium",
        settings=(EXCEPTIONS,),
        judge=_tokens,
    ),
    Rule(
        name="secret-in-plain-text",
        subject="security",
        statement="No property but a secret's own holds a secret.",
        evidence="whoever may read the object, its history or its manifest reads the secret; Pulumi's encryption ends at its own state. "
        "Mandatory: a secret that has been written there counts as leaked. The value is not shown",
        fix="a Secret or Secret Manager, mounted as a file; and a new secret instead of this one",
        level="mandatory",
        severity="critical",
        judge=_plain_secret,
    ),
)
