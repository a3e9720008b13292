"""Cases of what pods, machine accounts and strangers may do."""

from __future__ import annotations

from typing import Any

from rules.rights import NODE_ROLES
from tests.policy.case import (
    CONTAINER,
    DEPLOYMENT,
    HERE,
    POD,
    Edit,
    Props,
    append,
    delete,
    drop,
    flag,
    new,
    of_resource,
    put,
    sound,
    variable,
)

_DENY = "network-policies-default-deny"
_BUCKET = "results-bucket"
# Put together here: a checker of the repository must not take them for real ones.
_TOKEN = "hf_" + "aBcDeFgH" * 5
_KEY = "correct-horse-" + "battery-staple"
_PASSWORD = "swordfish" + "-17"


def _in_server(path: str, value: Any) -> Edit:
    return put(DEPLOYMENT, f"{CONTAINER}.{path}", value=value)


def _args(*words: str) -> Edit:
    return _in_server("args", ["m", *words])


def _env(name: str, value: Any) -> Edit:
    return _in_server("env", [{"name": name, **(value if isinstance(value, dict) else {"value": value})}])


def _annotated(text: str) -> Edit:
    return put(DEPLOYMENT, "metadata.annotations.note", value=text)


def _made(kind: str, props: Props) -> Edit:
    """One more resource of Google Cloud."""
    return new("by-hand", f"gcp:{kind}", props, beside=_BUCKET)


def _grant(role: str, member: str) -> Edit:
    return _made("projects/iAMMember:IAMMember", {"role": role, "member": member})


_SECRET = "kubernetes:core/v1:Secret"
_PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\n"
_NODES = "serviceAccount:dev-vllm-nodes@offline-preview.iam.gserviceaccount.com"
_BOT = "serviceAccount:bot@p.iam.gserviceaccount.com"
_SILENT = drop(DEPLOYMENT, f"{POD}.automountServiceAccountToken")
_NO_ACCOUNT = delete("server-account")


def _rights(namespace: str) -> Edit:
    """A role for the server's account, or for a namesake."""
    subject = {"kind": "ServiceAccount", "name": "vllm-server", "namespace": namespace}
    props = {"metadata": {"name": "b", "namespace": HERE}, "subjects": [subject]}
    return new("binding", "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding", props)


def _role(resource: str, *verbs: str, names: list[str] | None = None) -> Edit:
    """One more role, of one right."""
    rule = {"apiGroups": ["*"], "resources": [resource], "verbs": list(verbs), "resourceNames": names or []}
    props = {"metadata": {"name": "r", "namespace": HERE}, "rules": [rule]}
    return new("role", "kubernetes:rbac.authorization.k8s.io/v1:Role", props)


_RELEASE = "0123456789ab"
_SAVER = put(
    DEPLOYMENT,
    f"{POD}.initContainers",
    value=[
        {"name": "compile-cache", "command": ["python3", "-c", "", "save", "--bucket", "caches", f"--key={_RELEASE}"]}
    ],
)


_CANARY = new(
    "canary",
    "kubernetes:apps/v1:Deployment",
    {
        "metadata": {"name": "canary", "namespace": HERE},
        "spec": {
            "template": {
                "spec": {
                    "serviceAccountName": "vllm-server-next",
                    "initContainers": [
                        {"name": "compile-cache", "command": ["python3", "--bucket", "caches", "--key=fedcba987654"]}
                    ],
                }
            }
        },
    },
)
"""Another release beside the servers."""


def _caches(role: str, account: str = "vllm-server", key: str = _RELEASE) -> Edit:
    """A grant on the bucket of the servers' compiled kernels."""
    member = f"principal://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/subject/ns/vllm-dev/sa/{account}"
    expression = f"resource.name.startsWith('projects/_/buckets/caches/objects/{key}/')"
    inputs = {"bucket": "caches", "role": role, "member": member, "condition": {"expression": expression}}
    return new("caches", "gcp:storage/bucketIAMMember:BucketIAMMember", inputs)


CACHES = (
    of_resource("compile-cache-writers", "servers replace what they run", _SAVER, _caches("roles/storage.objectUser")),
    of_resource(
        "compile-cache-writers", "a pod of another kind", _SAVER, _caches("roles/storage.objectCreator", "benchmark")
    ),
    of_resource(
        "compile-cache-writers",
        "every key",
        _SAVER,
        _caches("roles/storage.objectCreator", key=""),
    ),
    of_resource(
        "compile-cache-writers",
        "a canary under the servers' key",
        _SAVER,
        _CANARY,
        _caches("roles/storage.objectCreator", "vllm-server-next"),
    ),
    sound(
        "compile-cache-writers",
        "a canary under its own key",
        _SAVER,
        _CANARY,
        _caches("roles/storage.objectCreator", "vllm-server-next", "fedcba987654"),
    ),
    sound("compile-cache-writers", "servers of the key", _SAVER, _caches("roles/storage.objectCreator")),
    sound("compile-cache-writers", "a pod that reads", _SAVER, _caches("roles/storage.objectViewer", "benchmark")),
)

PODS = (
    of_resource(
        "token-mounted-for-nothing",
        "an account that mounts it, and a pod that does not refuse",
        drop("weights-download", f"{POD}.automountServiceAccountToken"),
        put("weights-account", "automountServiceAccountToken", value=True),
        stack="spot",
    ),
    of_resource("token-mounted-for-nothing", "nothing said, and no account", _SILENT, _NO_ACCOUNT),
    of_resource(
        "token-mounted-for-nothing",
        "a pod that insists, whatever its account says",
        put(DEPLOYMENT, f"{POD}.automountServiceAccountToken", value=True),
    ),
    of_resource("token-mounted-for-nothing", "rights of a namesake elsewhere", _SILENT, _NO_ACCOUNT, _rights("other")),
    of_resource(
        "object-stated-in-part",
        "a patch",
        new("p", "kubernetes:core/v1:ConfigMapPatch", {"metadata": {"namespace": HERE}}),
    ),
    sound(
        "object-stated-in-part",
        "labels of a namespace",
        new("p", "kubernetes:core/v1:NamespacePatch", {"metadata": {"name": HERE, "labels": {"team": "a"}}}),
    ),
    of_resource(
        "server-variables-unseen", "a ConfigMap's every key", _in_server("envFrom", [{"configMapRef": {"name": "c"}}])
    ),
    sound("server-variables-unseen", "a variable", variable(DEPLOYMENT, "A", "b")),
    of_resource("role-without-names", "whoever writes any quota", _role("resourcequotas", "get", "patch")),
    of_resource("role-without-names", "whoever runs pods", _role("pods", "create")),
    of_resource("role-without-names", "whoever lists secrets", _role("secrets", "list")),
    of_resource("role-without-names", "whoever may do all to one", _role("*", "*", names=["a"])),
    sound("role-without-names", "one quota by its name", _role("resourcequotas", "create", "patch", names=["a"])),
    sound("role-without-names", "pods that are deleted", _role("pods", "list", "delete")),
    sound("role-without-names", "a status", _role("replicasets/status", "patch")),
    sound("token-mounted-for-nothing", "an account that refuses", _SILENT),
    sound("token-mounted-for-nothing", "rights", _SILENT, _NO_ACCOUNT, _rights(HERE)),
)

SECRETS = (
    of_resource(
        "secret-in-plain-text",
        "a token in an annotation",
        put(DEPLOYMENT, "metadata.annotations.note", value=f"download with {_TOKEN}"),
        stack="cud",
        unspeakable=_TOKEN,
    ),
    of_resource(
        "secret-in-plain-text",
        "a key in a variable of its name",
        variable(DEPLOYMENT, "VLLM_API_KEY", _KEY),
        stack="spot",
        unspeakable=_KEY,
    ),
    of_resource(
        "secret-in-plain-text",
        "a key as a word of its own",
        flag(DEPLOYMENT, "--api-key"),
        append(DEPLOYMENT, f"{CONTAINER}.args", _KEY),
        unspeakable=_KEY,
    ),
    of_resource(
        "secret-in-plain-text",
        "the key in the header of a probe",
        put(
            DEPLOYMENT,
            f"{CONTAINER}.readinessProbe.httpGet.httpHeaders",
            value=[{"name": "Authorization", "value": f"Bearer {_KEY}"}],
        ),
        stack="gateway",
        unspeakable=_KEY,
    ),
    of_resource(
        "secret-in-plain-text",
        "a password in the address of a mirror",
        put("weights-download", f"{CONTAINER}.env.2.value", value=f"https://fleet:{_PASSWORD}@mirror.example.com"),
        stack="cud",
        unspeakable=_PASSWORD,
    ),
    *(
        of_resource("secret-in-plain-text", what, edit, unspeakable=secret)
        for what, edit, secret in (
            ("a token in an option", _args(f"--hf={_TOKEN}"), _TOKEN),
            ("a key behind =", _args(f"--api-key={_KEY}"), _KEY),
            ("a key behind its option", _args("--api-key", _KEY), _KEY),
            ("a key in a script", _args(f"vllm serve m --api-key {_KEY}"), _KEY),
            ("a variable's name", _env("VLLM_API_KEY", _KEY), _KEY),
            ("a variable's value", _env("ANY", _TOKEN), _TOKEN),
            ("a URL", _annotated(f"https://me:{_KEY}@huggingface.co/m"), _KEY),
            ("a header", _annotated(f"Authorization: Bearer {_KEY}"), _KEY),
            ("a key of data", put(DEPLOYMENT, "data.HF_TOKEN", value=_KEY), _KEY),
            (
                "a key's file",
                put(DEPLOYMENT, "data", "key.pem", value=f"{_PEM}{_KEY}"),
                _KEY,
            ),
            (
                "beside a Secret's own place",
                new("s", _SECRET, {"metadata": {"annotations": {"was": _TOKEN}}}),
                _TOKEN,
            ),
        )
    ),
    *(
        sound("secret-in-plain-text", what, edit)
        for what, edit in (
            ("a variable in place of a key", _args("--api-key=$(KEY)", "--max-num-batched-tokens=8192")),
            ("a shell's variable", _args("--api-key", "$KEY")),
            ("where a token lies", _env("HF_TOKEN_PATH", "/var/run/secrets/hf-token/token")),
            ("no key", _env("OPENAI_API_KEY", "EMPTY")),
            ("a Secret's key", _env("HF_TOKEN", {"valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}})),
            ("tokens of a model", _env("MAX_TOKENS", "512")),
            ("a tokenizer", _env("TOKENIZER", "qwen")),
            ("an image's digest", _annotated("oci://registry.k8s.io/a/b:v1@sha256:0")),
            ("a repository", _annotated("git@github.com:a/b")),
            ("a Secret", new("s", _SECRET, {"stringData": {"t": _TOKEN}})),
            ("a version of a secret", _made("secretmanager/secretVersion:SecretVersion", {"secretData": _TOKEN})),
            ("a provider", new("k", "pulumi:providers:kubernetes", {"kubeconfig": _PEM})),
        )
    ),
)

ACCESS = (
    of_resource(
        "broad-roles",
        "nodes that read every bucket",
        put("nodes-telemetry", "role", value="roles/storage.admin"),
        stack="cud",
    ),
    of_resource("broad-roles", "a role for storage", _grant("roles/storage.admin", _NODES)),
    sound(
        "broad-roles",
        "a role agreed",
        _grant("roles/storage.admin", _NODES),
        nodeRoles=[*NODE_ROLES, "roles/storage.admin"],
    ),
    of_resource("broad-roles", "a machine that owns the project", _grant("roles/owner", _BOT)),
    of_resource(
        "broad-roles",
        "a workload that edits the project",
        _made(
            "projects/iAMBinding:IAMBinding",
            {"role": "roles/editor", "members": ["user:a@b.c", "principal://iam.googleapis.com/projects/1/x"]},
        ),
    ),
    of_resource(
        "broad-roles",
        "a benchmark that may delete its bucket",
        put("access-benchmark-results", "role", value="roles/storage.admin"),
        stack="spot",
    ),
    sound("broad-roles", "a person", _grant("roles/owner", "user:a@b.c")),
    of_resource("broad-roles", "a machine's role for all buckets", _grant("roles/storage.admin", _BOT)),
    sound(
        "broad-roles",
        "a machine's role, agreed",
        _grant("roles/storage.admin", _BOT),
        agreed=[f"roles/storage.admin {_BOT}"],
    ),
    sound("broad-roles", "another machine's own role", _grant("roles/cloudtrace.agent", _BOT)),
    of_resource("long-lived-key", "a key", _made("serviceaccount/key:Key", {"serviceAccountId": "a"})),
    sound("long-lived-key", "an account", _made("serviceaccount/account:Account", {"accountId": "a"})),
    of_resource(
        "node-account-default",
        "the account removed",
        drop("cluster-autopilot", "clusterAutoscaling.autoProvisioningDefaults.serviceAccount"),
        stack="spot",
    ),
    sound(
        "node-account-default",
        "a cluster whose pools say it",
        _made("container/cluster:Cluster", {"removeDefaultNodePool": True}),
    ),
    of_resource("namespace-without-network-policy", "the default deny deleted", delete(_DENY), stack="cud"),
    of_resource(
        "namespace-without-network-policy",
        "a default deny that lets everybody in",
        put(_DENY, "spec.ingress", value=[{}]),
    ),
    of_resource(
        "namespace-without-network-policy",
        "a policy for some pods",
        put(_DENY, "spec.podSelector", value={"matchLabels": {"app": "server"}}),
    ),
    of_resource(
        "namespace-without-network-policy", "a default deny elsewhere", put(_DENY, "metadata.namespace", value="other")
    ),
    of_resource(
        "namespace-without-network-policy",
        "servers in the namespace of everybody",
        put(DEPLOYMENT, "metadata.namespace", value="default"),
    ),
    sound(
        "namespace-without-network-policy", "servers in another stack's namespace", delete("namespace-namespace", _DENY)
    ),
    sound(
        "namespace-without-network-policy",
        "a namespace of the system",
        new("system", "kubernetes:core/v1:Namespace", {"metadata": {"name": "kube-system"}}),
    ),
    of_resource(
        "namespace-egress-open", "everything may go out", put(_DENY, "spec.egress", value=[{}]), stack="gateway"
    ),
    of_resource(
        "namespace-egress-open",
        "servers reach the internet",
        put(
            "network-policies-weights-writer",
            "spec.podSelector",
            value={"matchLabels": {"app": "qwen35-server"}},
        ),
    ),
    of_resource("namespace-egress-open", "a deny of what comes in", put(_DENY, "spec.policyTypes", value=["Ingress"])),
    of_resource(
        "namespace-without-pod-security",
        "the level that allows everything",
        put("namespace-namespace", "metadata.labels", "pod-security.kubernetes.io/enforce", value="privileged"),
        stack="cud",
    ),
    of_resource("namespace-without-pod-security", "no label", drop("namespace-namespace", "metadata.labels")),
    of_resource(
        "public-grant",
        "every pod of the project",
        put(
            "access-benchmark-results",
            "member",
            value="principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p.svc.id.goog/*",
        ),
        stack="spot",
    ),
    of_resource(
        "public-grant",
        "results for whoever has a Google account",
        put("access-benchmark-results", "member", value="allAuthenticatedUsers"),
        stack="spot",
    ),
    *(
        of_resource("public-grant", f"{kind.rpartition(':')[2]} of {', '.join(props)}", _made(kind, props))
        for kind, props in (
            ("storage/bucketIAMMember:BucketIAMMember", {"role": "roles/x", "member": "allUsers"}),
            (
                "storage/bucketIAMBinding:BucketIAMBinding",
                {"role": "r", "members": ["allAuthenticatedUsers"]},
            ),
            (
                "storage/bucketIAMPolicy:BucketIAMPolicy",
                {"policyData": '{"bindings":[{"members":["allUsers"]}]}'},
            ),
            ("storage/bucketACL:BucketACL", {"roleEntities": ["READER:allUsers"]}),
            ("storage/bucketACL:BucketACL", {"predefinedAcl": "publicRead"}),
            ("storage/bucketAccessControl:BucketAccessControl", {"entity": "allUsers", "role": "READER"}),
            (
                "artifactregistry/repositoryIamMember:RepositoryIamMember",
                {"role": "r", "member": "allUsers"},
            ),
        )
    ),
    of_resource(
        "bucket-can-become-public",
        "access object by object",
        put(_BUCKET, "uniformBucketLevelAccess", value=False),
        stack="cud",
    ),
    of_resource(
        "bucket-can-become-public",
        "a bucket that follows its organization",
        put(_BUCKET, "publicAccessPrevention", value="inherited"),
    ),
)

CASES = PODS + CACHES + SECRETS + ACCESS
