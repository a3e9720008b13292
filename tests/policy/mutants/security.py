"""Mutants of what pods, machine accounts and strangers may do."""

from __future__ import annotations

from typing import Any

from tests.policy.mutant import (
    CONTAINER,
    DEPLOYMENT,
    POD,
    Patch,
    append,
    arguments,
    constant,
    delete,
    drop,
    flag,
    of_program,
    of_resource,
    put,
    result,
    returning,
    set_at,
    variable,
)

_DENY = "namespace-network-policies-default-deny"
_BUCKET = "platform-results-bucket"
# Put together here: a checker of the repository must not take them for real ones.
_TOKEN = "hf_" + "aBcDeFgH" * 5
_KEY = "correct-horse-" + "battery-staple"
_PASSWORD = "swordfish" + "-17"


def _pod(path: str, value: Any) -> Patch:
    """Another server pod from the program."""
    return result("workloads.server.pod.pod_spec", lambda spec: set_at(spec, path, value=value))


def _container(path: str, value: Any) -> Patch:
    return result("workloads.server.pod.container", lambda container: set_at(container, path, value=value))


PODS = (
    of_program(
        "privileged-container", "a privileged server", _container("security_context.privileged", True), stack="guest"
    ),
    of_resource(
        "privileged-container",
        "the writer may administer its node",
        put("weights-download", f"{CONTAINER}.securityContext.capabilities.add", value=["SYS_ADMIN"]),
        stack="cud",
    ),
    of_program("host-namespaces", "the host's shared memory", _pod("host_ipc", True), stack="guest"),
    of_resource(
        "host-namespaces", "the host's network", put(DEPLOYMENT, f"{POD}.hostNetwork", value=True), stack="spot"
    ),
    of_resource(
        "host-namespaces",
        "the host's container runtime",
        append(DEPLOYMENT, f"{POD}.volumes", {"name": "run", "hostPath": {"path": "/run/containerd"}}),
        stack="guest",
    ),
    of_program("runs-as-root", "the writer as root", constant("workloads.weights.weights.NONROOT", 0), stack="guest"),
    of_resource("runs-as-root", "whatever the image says", drop(DEPLOYMENT, f"{POD}.securityContext"), stack="cud"),
    of_program(
        "container-not-restricted",
        "the default capabilities",
        _container("security_context.capabilities", {}),
        stack="guest",
    ),
    of_resource(
        "container-not-restricted",
        "escalation in the benchmark's first container",
        put("benchmark-job", f"{POD}.initContainers.0.securityContext.allowPrivilegeEscalation", value=True),
        stack="gateway",
    ),
    of_program(
        "token-mounted-for-nothing",
        "a token in the server",
        _pod("automount_service_account_token", True),
        stack="guest",
    ),
    of_resource(
        "token-mounted-for-nothing",
        "an account that mounts it, and a pod that does not refuse",
        drop("weights-download", f"{POD}.automountServiceAccountToken"),
        put("namespace-weights-writer", "automountServiceAccountToken", value=True),
        stack="spot",
    ),
)

SECRETS = (
    of_program(
        "secret-in-plain-text",
        "a token in a variable",
        result("workloads.server.vllm_args.env", lambda variables: [*variables, {"name": "HF_TOKEN", "value": _TOKEN}]),
        unspeakable=_TOKEN,
        stack="guest",
    ),
    of_program(
        "secret-in-plain-text",
        "an API key among the flags",
        result("workloads.server.vllm_args.args", lambda words: [*words, f"--api-key={_KEY}"]),
        stack="guest",
        unspeakable=_KEY,
    ),
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
        stack="guest",
        unspeakable=_PASSWORD,
    ),
)

ACCESS = (
    of_program("broad-roles", "nodes that may edit the project", constant("infra.identity.NODE_ROLE", "roles/editor")),
    of_resource(
        "broad-roles",
        "nodes that read every bucket",
        put("platform-nodes-telemetry", "role", value="roles/storage.admin"),
        stack="cud",
    ),
    of_program(
        "node-account-default",
        "a cluster without the nodes' account",
        arguments("infra.cluster.container.Cluster", lambda given: given.pop("cluster_autoscaling")),
    ),
    of_resource(
        "node-account-default",
        "the account removed",
        drop("platform-cluster-autopilot", "clusterAutoscaling.autoProvisioningDefaults.serviceAccount"),
        stack="spot",
    ),
    of_program(
        "namespace-without-network-policy",
        "no default deny",
        result("workloads.network_policies.policies", lambda specs: specs.pop("default-deny") and None),
        stack="guest",
    ),
    of_resource("namespace-without-network-policy", "the default deny deleted", delete(_DENY), stack="cud"),
    of_resource(
        "namespace-without-network-policy",
        "a default deny that lets everybody in",
        put(_DENY, "spec.ingress", value=[{}]),
        stack="guest",
    ),
    of_program(
        "namespace-egress-open",
        "nothing said of what goes out",
        result(
            "workloads.network_policies.policies",
            lambda specs: set_at(specs, "default-deny.policy_types", value=["Ingress"]),
        ),
        stack="guest",
    ),
    of_resource(
        "namespace-egress-open", "everything may go out", put(_DENY, "spec.egress", value=[{}]), stack="gateway"
    ),
    of_program(
        "namespace-without-pod-security",
        "no labels",
        returning("workloads.namespace.pod_security_labels", {}),
        stack="guest",
    ),
    of_resource(
        "namespace-without-pod-security",
        "the level that allows everything",
        put("namespace-namespace", "metadata.labels", "pod-security.kubernetes.io/enforce", value="privileged"),
        stack="cud",
    ),
    of_program(
        "public-grant",
        "results for everybody",
        returning("infra.workload_access.principal", "allUsers"),
        stack="gateway",
    ),
    of_resource(
        "public-grant",
        "results for whoever has a Google account",
        put("access-benchmark-results", "member", value="allAuthenticatedUsers"),
        stack="spot",
    ),
    of_program(
        "bucket-can-become-public",
        "a bucket without prevention",
        arguments("infra.results_bucket.storage.Bucket", lambda given: given.pop("public_access_prevention")),
    ),
    of_resource(
        "bucket-can-become-public",
        "access object by object",
        put(_BUCKET, "uniformBucketLevelAccess", value=False),
        stack="cud",
    ),
)

MUTANTS = PODS + SECRETS + ACCESS
