from __future__ import annotations

from typing import Any

import pytest
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError, unknown_checking_proxy

from rule import Finding, Resource, Rule, found, message, rule_named, with_defaults
from tests.policy.manifests import CONTAINER, GONE, POD, SPACE, changed, kubernetes, one, resource, said, server, urns

CONTEXT = f"{CONTAINER}.securityContext"
TOKEN = "hf_" + "aB3" * 11
DENY = kubernetes(
    "networking.k8s.io/v1:NetworkPolicy", "deny", {"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}
)
NAMESPACE = resource(
    "kubernetes:core/v1:Namespace",
    "space",
    {"metadata": {"name": SPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
)
NODES = "nodes@p.iam.gserviceaccount.com"
CLUSTER = resource(
    "gcp:container/cluster:Cluster",
    "cluster",
    {
        "enableAutopilot": True,
        "clusterAutoscaling": {
            "autoProvisioningDefaults": {"serviceAccount": NODES, "oauthScopes": ["cloud-platform"]}
        },
    },
)
BUCKET = resource(
    "gcp:storage/bucket:Bucket", "results", {"publicAccessPrevention": "enforced", "uniformBucketLevelAccess": True}
)


def grant(role: str, member: str, type_: str = "gcp:projects/iAMMember:IAMMember") -> Resource:
    return resource(type_, "grant", {"role": role, "member": member})


WHOLE = (
    NAMESPACE,
    DENY,
    server(),
    CLUSTER,
    BUCKET,
    grant("roles/container.defaultNodeServiceAccount", f"serviceAccount:{NODES}"),
    kubernetes("core/v1:Secret", "token", {"stringData": {"token": TOKEN}}),
)
RULES = (
    "privileged-container",
    "host-namespaces",
    "runs-as-root",
    "container-not-restricted",
    "token-mounted-for-nothing",
    "secret-in-plain-text",
    "broad-roles",
    "node-account-default",
    "namespace-without-network-policy",
    "namespace-egress-open",
    "namespace-without-pod-security",
    "public-grant",
    "bucket-can-become-public",
)


@pytest.mark.parametrize("rule", RULES)
def test_a_whole_stack_breaks_no_rule(rule: str) -> None:
    assert said(rule, *WHOLE) == []


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (f"{CONTEXT}.privileged", True, "securityContext.privileged is true"),
        (f"{CONTEXT}.procMount", "Unmasked", "securityContext.procMount is Unmasked"),
        (
            f"{CONTEXT}.capabilities.add",
            ["CAP_SYS_ADMIN", "IPC_LOCK", "CHOWN"],
            "capabilities.add has IPC_LOCK, SYS_ADMIN",
        ),
    ],
)
def test_what_owns_a_node_is_found(path: str, value: Any, words: str) -> None:
    text = one(said("privileged-container", changed(server(), path, value)))
    assert words in text
    assert "Autopilot refuses the pod" in text


def test_an_initialising_container_is_judged_as_well() -> None:
    first = {"name": "tune", "image": "busybox", "securityContext": {"privileged": True}}
    text = one(said("privileged-container", changed(server(), f"{POD}.initContainers", [first])))
    assert "spec.template.spec.initContainers[0].securityContext.privileged" in text


@pytest.mark.parametrize("key", ["hostNetwork", "hostPID", "hostIPC"])
def test_a_host_namespace_is_found(key: str) -> None:
    assert f"{POD}.{key} is true" in one(said("host-namespaces", changed(server(), f"{POD}.{key}", True)))


def test_a_host_path_is_found_unless_it_reads_logs() -> None:
    volume = {"name": "weights", "hostPath": {"path": "/home/kubernetes/bin/gib"}}
    found = changed(server(), f"{POD}.volumes.0", volume)
    assert "volumes[0].hostPath.path is /home/kubernetes/bin/gib" in one(said("host-namespaces", found))
    logs = changed(server(), f"{POD}.volumes.0", {"name": "weights", "hostPath": {"path": "/var/log/pods"}})
    assert said("host-namespaces", logs) == []
    assert "/var/log/pods" in one(said("host-namespaces", changed(logs, f"{CONTAINER}.volumeMounts.0.readOnly", False)))


def test_a_host_port_is_found() -> None:
    text = one(said("host-namespaces", changed(server(), f"{CONTAINER}.ports.0.hostPort", 8000.0)))
    assert "ports[0].hostPort is 8000" in text
    assert "a Service finds the pods" in text


def test_root_is_found_by_its_number_and_by_silence() -> None:
    root = changed(server(), f"{CONTEXT}.runAsUser", 0.0)
    assert "containers[0] (vllm) runs as user 0" in one(said("runs-as-root", root))
    silent = changed(server(), f"{POD}.securityContext", {})
    text = one(said("runs-as-root", silent))
    assert "runs as whatever user its image names" in text
    assert "vLLM's image runs as root by itself" in text


def test_exceptions_and_node_agents_may_run_as_root() -> None:
    silent = changed(server(), f"{POD}.securityContext", {})
    assert said("runs-as-root", silent, exceptions=["server"]) == []
    agent = Resource(type="kubernetes:apps/v1:DaemonSet", name="agent", urn="u", props=silent.props)
    assert said("runs-as-root", agent) == []


def test_escalation_and_kept_capabilities_are_found() -> None:
    loose = changed(server(), CONTEXT, {"runAsNonRoot": True})
    texts = said("container-not-restricted", loose)
    assert len(texts) == 2
    assert "allowPrivilegeEscalation is not false" in texts[0]
    assert "capabilities.drop has no ALL" in texts[1]


def account(mounts: bool | None) -> Resource:
    props = {} if mounts is None else {"automountServiceAccountToken": mounts}
    return kubernetes("core/v1:ServiceAccount", "server", props)


def test_a_token_that_nobody_needs_is_found() -> None:
    silent = changed(server(), f"{POD}.automountServiceAccountToken", GONE)
    text = one(said("token-mounted-for-nothing", silent))
    assert (
        "automountServiceAccountToken is not false, and no role of this stack is bound to ServiceAccount server" in text
    )
    assert urns("token-mounted-for-nothing", silent, account(True)) == ["server"]
    assert said("token-mounted-for-nothing", silent, account(False)) == []
    # The pod's own word wins over its account's.
    insists = changed(server(), f"{POD}.automountServiceAccountToken", True)
    assert urns("token-mounted-for-nothing", insists, account(False)) == ["server"]


def test_a_token_with_rights_is_not_for_nothing() -> None:
    silent = changed(server(), f"{POD}.automountServiceAccountToken", GONE)
    subject = {"kind": "ServiceAccount", "name": "server", "namespace": SPACE}
    binding = kubernetes("rbac.authorization.k8s.io/v1:RoleBinding", "b", {"subjects": [subject]})
    assert said("token-mounted-for-nothing", silent, binding) == []
    assert urns("token-mounted-for-nothing", silent, changed(binding, "subjects.0.namespace", "other")) == ["server"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (f"{CONTAINER}.args", ["vllm", f"--hf={TOKEN}"], "containers[0].args[1] looks like a Hugging Face token"),
        (f"{CONTAINER}.args", ["m", "--api-key=letmein1"], "args[1] looks like a secret given as an option"),
        (f"{CONTAINER}.args", ["m", "--api-key", "letmein1"], "args[2] looks like a secret given as an option"),
        (f"{CONTAINER}.args", ["vllm serve m --api-key letmein1"], "args[0] looks like a secret given as an option"),
        (
            f"{CONTAINER}.env",
            [{"name": "VLLM_API_KEY", "value": "letmein1"}],
            "env[0].value looks like a secret, by the name VLLM_API_KEY",
        ),
        (f"{CONTAINER}.env", [{"name": "ANY", "value": TOKEN}], "env[0].value looks like a Hugging Face token"),
        ("metadata.annotations", {"from": "https://me:letmein1@huggingface.co/m"}, "looks like a password in a URL"),
        ("metadata.annotations", {"header": "Authorization: Bearer letmein1-letmein1"}, "looks like a bearer token"),
        ("data", {"HF_TOKEN": "letmein1"}, "data.HF_TOKEN looks like a secret, by its name"),
        ("data", {"key.pem": "-----BEGIN RSA PRIVATE KEY-----\nletmein1"}, "data.key.pem looks like a private key"),
    ],
)
def test_a_secret_in_any_property_is_found_and_never_repeated(path: str, value: Any, words: str) -> None:
    text = one(said("secret-in-plain-text", changed(server(), path, value)))
    assert words in text
    assert TOKEN not in text
    assert "letmein1" not in text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{CONTAINER}.args", ["m", "--api-key=$(KEY)", "--max-num-batched-tokens=8192"]),
        (f"{CONTAINER}.args", ["m", "--api-key", "$KEY"]),
        (f"{CONTAINER}.env", [{"name": "HF_TOKEN_PATH", "value": "/var/run/secrets/hf-token/token"}]),
        (f"{CONTAINER}.env", [{"name": "OPENAI_API_KEY", "value": "EMPTY"}]),
        (
            f"{CONTAINER}.env",
            [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}],
        ),
        (f"{CONTAINER}.env", [{"name": "MAX_TOKENS", "value": "512"}, {"name": "TOKENIZER", "value": "qwen"}]),
        ("metadata.annotations", {"image": "oci://registry.k8s.io/a/b:v1@sha256:0", "repo": "git@github.com:a/b"}),
    ],
)
def test_what_only_speaks_of_secrets_is_not_one(path: str, value: Any) -> None:
    assert said("secret-in-plain-text", changed(server(), path, value)) == []


def test_no_message_repeats_a_secret_that_another_rule_came_upon() -> None:
    leaking = changed(server(), f"{POD}.volumes", [{"name": "x", "hostPath": {"path": f"/mnt/{TOKEN}"}}])
    [finding] = found(rule_named("host-namespaces"), leaking)
    assert TOKEN in finding.what
    assert TOKEN not in message(rule_named("host-namespaces"), finding)


def test_a_secrets_own_place_and_a_providers_credentials_are_not_judged() -> None:
    version = resource("gcp:secretmanager/secretVersion:SecretVersion", "v", {"secretData": TOKEN})
    provider = resource("pulumi:providers:kubernetes", "k", {"kubeconfig": "-----BEGIN PRIVATE KEY-----"})
    assert said("secret-in-plain-text", version, provider) == []
    # Only that place: the same text beside it is as readable as anywhere.
    secret = kubernetes("core/v1:Secret", "s", {"stringData": {"t": TOKEN}}, annotations={"was": TOKEN})
    assert "metadata.annotations.was" in one(said("secret-in-plain-text", secret))


def test_a_value_unknown_in_a_preview_hides_no_secret_beside_it() -> None:
    rule = rule_named("secret-in-plain-text")
    assert isinstance(rule, Rule)
    env = [{"name": "VLLM_API_KEY", "value": UNKNOWN_STRING_VALUE}, {"name": "ANY", "value": TOKEN}]
    props = unknown_checking_proxy(dict(changed(server(), f"{CONTAINER}.env", env).props))
    judged = rule.judge(Resource(type="kubernetes:apps/v1:Deployment", props=props), with_defaults(rule, {}))
    first: Finding = next(judged)
    assert "env[1].value" in first.what
    with pytest.raises(UnknownValueError):
        next(judged)


def test_an_unknown_value_that_nothing_calls_a_secret_is_left_to_the_update() -> None:
    rule = rule_named("secret-in-plain-text")
    assert isinstance(rule, Rule)
    props = unknown_checking_proxy({"network": UNKNOWN_STRING_VALUE, "names": [UNKNOWN_STRING_VALUE, "a"]})
    assert list(rule.judge(Resource(type="gcp:compute/router:Router", props=props), {})) == []


@pytest.mark.parametrize("role", ["roles/editor", "roles/storage.admin"])
def test_a_role_beyond_a_nodes_needs_is_found(role: str) -> None:
    text = one(said("broad-roles", CLUSTER, grant(role, f"serviceAccount:{NODES}")))
    assert f"IAMMember grant gives {role} to the nodes' account, {NODES}" in text
    assert "roles/container.defaultNodeServiceAccount" in text
    assert said("broad-roles", CLUSTER, grant(role, f"serviceAccount:{NODES}"), nodeRoles=[role]) == []


def test_a_basic_role_of_any_machine_account_is_found_and_a_persons_is_not() -> None:
    other = grant("roles/owner", "serviceAccount:bot@p.iam.gserviceaccount.com")
    assert "gives roles/owner to a machine account, bot@" in one(said("broad-roles", other))
    binding = resource(
        "gcp:projects/iAMBinding:IAMBinding",
        "b",
        {"role": "roles/editor", "members": ["user:a@b.c", "principal://iam.googleapis.com/projects/1/x"]},
    )
    assert urns("broad-roles", binding) == ["b"]
    assert said("broad-roles", grant("roles/owner", "user:a@b.c")) == []
    assert said("broad-roles", grant("roles/storage.admin", "serviceAccount:bot@p.iam.gserviceaccount.com")) == []


def test_nodes_of_the_default_account_are_found() -> None:
    bare = changed(CLUSTER, "clusterAutoscaling.autoProvisioningDefaults.serviceAccount", GONE)
    text = one(said("node-account-default", bare))
    assert "clusterAutoscaling.autoProvisioningDefaults.serviceAccount is left out" in text
    assert "roles/editor" in text
    pool = resource("gcp:container/nodePool:NodePool", "gpus", {"nodeConfig": {"machineType": "a4-highgpu-8g"}})
    assert "nodeConfig.serviceAccount is left out" in one(said("node-account-default", pool))
    standard = resource("gcp:container/cluster:Cluster", "c", {"removeDefaultNodePool": True})
    assert said("node-account-default", standard) == []


def test_an_account_that_is_not_made_yet_is_an_account() -> None:
    rule = rule_named("node-account-default")
    assert isinstance(rule, Rule)
    props = unknown_checking_proxy(
        {
            "enableAutopilot": True,
            "clusterAutoscaling": {"autoProvisioningDefaults": {"serviceAccount": UNKNOWN_STRING_VALUE}},
        }
    )
    assert list(rule.judge(Resource(type=CLUSTER.type, props=props), {})) == []


def test_a_namespace_without_a_default_deny_is_found_with_what_runs_in_it() -> None:
    text = one(said("namespace-without-network-policy", NAMESPACE, server()))
    assert "Namespace llm has no NetworkPolicy" in text
    assert "whose /tokenize, /invocations and /metrics no key guards" in text
    assert "$391.32 an hour" in text
    allows = changed(DENY, "spec", {"podSelector": {"matchLabels": {"app": "server"}}, "ingress": [{}]})
    assert "has 1 NetworkPolicies and no default deny" in one(
        said("namespace-without-network-policy", NAMESPACE, allows)
    )
    everyone = changed(DENY, "spec", {"podSelector": {}, "ingress": [{}]})
    assert urns("namespace-without-network-policy", NAMESPACE, everyone) == ["space"]
    elsewhere = changed(DENY, "metadata.namespace", "other")
    assert urns("namespace-without-network-policy", NAMESPACE, elsewhere) == ["space"]


def test_of_namespaces_made_elsewhere_only_default_is_judged() -> None:
    assert said("namespace-without-network-policy", server()) == []
    text = one(said("namespace-without-network-policy", changed(server(), "metadata.namespace", "default")))
    assert "Namespace default, where this stack runs model servers, has no NetworkPolicy" in text
    system = changed(NAMESPACE, "metadata.name", "kube-system")
    assert said("namespace-without-network-policy", system) == []


def test_egress_that_nothing_denies_is_found_where_ingress_is_guarded() -> None:
    inward = changed(DENY, "spec.policyTypes", ["Ingress"])
    assert "none of its 1 NetworkPolicies denies Egress" in one(said("namespace-egress-open", NAMESPACE, inward))
    assert said("namespace-egress-open", NAMESPACE) == []


def test_a_namespace_without_pod_security_is_found() -> None:
    privileged = {"pod-security.kubernetes.io/enforce": "privileged"}
    text = one(said("namespace-without-pod-security", changed(NAMESPACE, "metadata.labels", privileged)))
    assert "pod-security.kubernetes.io/enforce is privileged" in text
    assert "is left out" in one(said("namespace-without-pod-security", changed(NAMESPACE, "metadata.labels", {})))


@pytest.mark.parametrize(
    ("type_", "props", "words"),
    [
        (
            "storage/bucketIAMMember:BucketIAMMember",
            {"role": "roles/x", "member": "allUsers"},
            "roles/x is granted to allUsers",
        ),
        (
            "storage/bucketIAMBinding:BucketIAMBinding",
            {"role": "r", "members": ["allAuthenticatedUsers"]},
            "allAuthenticated",
        ),
        (
            "storage/bucketIAMPolicy:BucketIAMPolicy",
            {"policyData": '{"members":["allUsers"]}'},
            "access is granted to allUsers",
        ),
        ("storage/bucketACL:BucketACL", {"roleEntities": ["READER:allUsers"]}, "granted to allUsers"),
        ("storage/bucketACL:BucketACL", {"predefinedAcl": "publicRead"}, "granted to publicRead"),
        (
            "storage/bucketAccessControl:BucketAccessControl",
            {"entity": "allUsers", "role": "READER"},
            "READER is granted",
        ),
        (
            "artifactregistry/repositoryIamMember:RepositoryIamMember",
            {"role": "r", "member": "allUsers"},
            "r is granted",
        ),
    ],
)
def test_whatever_is_granted_to_everyone_is_found(type_: str, props: dict[str, Any], words: str) -> None:
    assert words in one(said("public-grant", resource(f"gcp:{type_}", "g", props)))


def test_a_bucket_that_could_be_made_public_is_found() -> None:
    open_ = changed(BUCKET, "publicAccessPrevention", "inherited")
    assert "publicAccessPrevention is inherited" in one(said("bucket-can-become-public", open_))
    mixed = changed(BUCKET, "uniformBucketLevelAccess", False)
    assert "single objects can be made public" in one(said("bucket-can-become-public", mixed))
