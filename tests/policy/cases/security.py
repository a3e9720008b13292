"""Cases of what pods, machine accounts and strangers may do."""

from __future__ import annotations

from typing import Any

from rules.rights import NODE_ROLES
from tests.policy.case import (
    CLUSTER,
    CONTAINER,
    DEPLOYMENT,
    NODES_GRANT,
    Edit,
    Rule,
    broken,
    drop,
    google,
    new,
    put,
    sound,
)
from tokens import SECRET

_DEFAULTS = "clusterAutoscaling.autoProvisioningDefaults"
# Put together here: a checker of the repository must not take them for real ones.
_TOKEN = "hf_" + "aBcDeFgH" * 5
_KEY = "correct-horse-" + "battery-staple"


def _in_server(path: str, value: Any) -> Edit:
    return put(DEPLOYMENT, f"{CONTAINER}.{path}", value=value)


def _args(*words: str) -> Edit:
    return _in_server("args", ["m", *words])


def _env(name: str, value: Any) -> Edit:
    return _in_server("env", [{"name": name, **(value if isinstance(value, dict) else {"value": value})}])


def _annotated(text: str) -> Edit:
    return put(DEPLOYMENT, "metadata.annotations.note", value=text)


_PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\n"
_BOT = "serviceAccount:bot@p.iam.gserviceaccount.com"

_PLAIN = Rule("secret-in-plain-text")
_BROAD = Rule("broad-roles")
_GRANT = Rule("public-grant", stack="spot")

SECRETS = (
    _PLAIN.broken(
        "a token in an annotation",
        put(DEPLOYMENT, "metadata.annotations.note", value=f"download with {_TOKEN}"),
        stack="cud",
        unspeakable=_TOKEN,
    ),
    *(
        _PLAIN.broken(what, edit, unspeakable=secret)
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
                new("s", SECRET, {"metadata": {"annotations": {"was": _TOKEN}}}),
                _TOKEN,
            ),
        )
    ),
    *(
        _PLAIN.sound(what, edit)
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
            ("a Secret", new("s", SECRET, {"stringData": {"t": _TOKEN}})),
            ("a version of a secret", google("secretmanager/SecretVersion", secretData=_TOKEN)),
            ("a provider", new("k", "pulumi:providers:kubernetes", {"kubeconfig": _PEM})),
        )
    ),
)

_OWNER = put(NODES_GRANT, "role", value="roles/owner")
_RESULTS = "BucketIAMMember/results"
_POOLS = "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools"

ACCESS = (
    _BROAD.broken("nodes that read every bucket", put(NODES_GRANT, "role", value="roles/storage.admin")),
    _BROAD.broken("a machine that owns the project", _OWNER, put(NODES_GRANT, "member", value=_BOT)),
    _BROAD.broken(
        "a workload that edits the project",
        google(
            "projects/IAMBinding",
            role="roles/editor",
            members=["user:a@b.c", "principal://iam.googleapis.com/projects/1/x"],
        ),
    ),
    _BROAD.broken(
        "a benchmark that may delete its bucket", put(_RESULTS, "role", value="roles/storage.admin"), stack="spot"
    ),
    _BROAD.sound("a person", _OWNER, put(NODES_GRANT, "member", value="user:a@b.c")),
    _BROAD.sound(
        "a role of nodes, agreed",
        put(NODES_GRANT, "role", value="roles/storage.admin"),
        nodeRoles=[*NODE_ROLES, "roles/storage.admin"],
    ),
    _BROAD.sound(
        "a machine's role, agreed", _OWNER, put(NODES_GRANT, "member", value=_BOT), agreed=[f"roles/owner {_BOT}"]
    ),
    _BROAD.sound("another role of nodes", put(NODES_GRANT, "role", value="roles/monitoring.viewer")),
    broken("long-lived-key", "a key", google("serviceaccount/Key", serviceAccountId="a")),
    broken("long-lived-key", "a key for every API", google("projects/ApiKey", name="a")),
    broken("long-lived-key", "a token", new("t", SECRET, {"type": "kubernetes.io/service-account-token"})),
    sound("long-lived-key", "an account", google("serviceaccount/Account", accountId="a")),
    broken("node-account-default", "the account removed", drop(CLUSTER, f"{_DEFAULTS}.serviceAccount"), stack="spot"),
    broken("node-account-default", "the default one", put(CLUSTER, f"{_DEFAULTS}.serviceAccount", value="default")),
    broken("node-account-default", "a pool", google("container/NodePool", nodeConfig={})),
    sound("node-account-default", "pools say it", google("container/Cluster", removeDefaultNodePool=True)),
    _GRANT.broken("every pod of the project", put(_RESULTS, "member", value=f"{_POOLS}/p.svc.id.goog/*")),
    _GRANT.broken("any Google account", put(_RESULTS, "member", value="allAuthenticatedUsers")),
    *(
        _GRANT.broken(f"{kind.rpartition('/')[2]} of {', '.join(props)}", google(kind, **props), stack="dev")
        for kind, props in (
            ("storage/BucketIAMBinding", {"role": "r", "members": ["allUsers"]}),
            ("storage/BucketACL", {"roleEntities": ["READER:allUsers"]}),
            ("storage/BucketACL", {"predefinedAcl": "publicRead"}),
            ("storage/BucketAccessControl", {"entity": "allUsers", "role": "READER"}),
        )
    ),
    _GRANT.sound("one repository's pipeline", put(_RESULTS, "member", value=f"{_POOLS}/p/attribute.repository/a/b")),
    _GRANT.sound(
        "a company, behind Identity-Aware Proxy",
        google("iap/WebIamMember", role="roles/iap.httpsResourceAccessor", member="domain:a.b"),
        stack="dev",
    ),
)

CASES = SECRETS + ACCESS
