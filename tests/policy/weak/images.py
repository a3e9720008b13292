"""What runs, in every kind of workload."""

from __future__ import annotations

from typing import Any

from facts import pickers, releases
from tests.policy.weak import Row, rows

_KNOWN, _OTHER = str(releases.find("0.18.1").digest), "sha256:" + "0" * 64
_SERVER = "docker.io/vllm/vllm-openai:v0.18.1"
_OWN = "europe-west4-docker.pkg.dev/p/hub"
_DEPLOYMENT = "kubernetes:apps/v1:Deployment"
_REPOSITORY = (
    "gcp:artifactregistry/repository:Repository",
    {"location": "europe-west4", "project": "p", "repositoryId": "hub", "format": "DOCKER"},
)


def _pod(image: str, key: str = "containers", **spec: Any) -> dict[str, Any]:
    return {"spec": {key: [{"name": "c", "image": image}], **spec}}


def _made(image: str, key: str = "containers", **spec: Any) -> dict[str, Any]:
    return {"spec": {"template": _pod(image, key, **spec)}}


def _every_kind(image: str) -> dict[str, dict[str, Any]]:
    made, pod = _made(image), _pod(image)
    return {
        "core/v1:Pod": pod,
        "core/v1:PodTemplate": {"template": pod},
        "apps/v1:StatefulSet": made,
        "apps/v1:DaemonSet": made,
        "apps/v1:ReplicaSet": made,
        "batch/v1:Job": made,
        "batch/v1:CronJob": {"spec": {"jobTemplate": made}},
        "leaderworkerset.x-k8s.io/v1:LeaderWorkerSet": {"spec": {"leaderWorkerTemplate": {"workerTemplate": pod}}},
        "argoproj.io/v1alpha1:Rollout": made,
        "serving.knative.dev/v1:Service": made,
        "ray.io/v1:RayCluster": {"spec": {"workerGroupSpecs": [{"replicas": 2, "template": pod}]}},
        "jobset.x-k8s.io/v1alpha2:JobSet": {"spec": {"replicatedJobs": [{"template": made}]}},
        "batch.volcano.sh/v1alpha1:Job": {"spec": {"tasks": [{"template": pod}]}},
        "serving.kserve.io/v1beta1:InferenceService": {"spec": {"predictor": pod["spec"]}},
        "keda.sh/v1alpha1:ScaledJob": {"spec": {"jobTargetRef": {"template": pod}}},
    }


def _beside(image: str, what: str) -> Row:
    """A Deployment beside the stack's own repository."""
    return Row("image-from-elsewhere", what, (_REPOSITORY, (_DEPLOYMENT, _made(image))))


WEAK = (
    *(Row("image-not-pinned", kind, ((f"kubernetes:{kind}", props),)) for kind, props in _every_kind("a:1").items()),
    *rows(
        "image-not-pinned",
        _DEPLOYMENT,
        ("an init container", _made("a:1", "initContainers")),
        ("an ephemeral container", _made("a:1", "ephemeralContainers")),
        ("a digest that is none", _made("a:1@sha256:abc")),
        ("an image as a volume", _made(f"a:1@{_OTHER}", volumes=[{"name": "v", "image": {"reference": "b:1"}}])),
    ),
    *rows(
        "image-of-another-digest",
        _DEPLOYMENT,
        ("another digest", _made(f"{_SERVER}@{_OTHER}")),
        ("another publisher", _made(f"docker.io/other/vllm-openai:v0.18.1@{_OTHER}")),
        ("in an init container", _made(f"{_SERVER}@{_OTHER}", "initContainers")),
    ),
    _beside(f"ghcr.io/a/b:1@{_OTHER}", "another registry"),
    _beside(f"europe-west4-docker.pkg.dev/other/hub/a:1@{_OTHER}", "another project"),
    _beside(f"europe-west4-docker.pkg.dev/p/hub-2/a:1@{_OTHER}", "another repository"),
    _beside(f"a:1@{_OTHER}", "Docker Hub itself"),
    _beside(f"{_OWN}/other/vllm-openai:v0.18.2@{_OTHER}", "another publisher in the stack's repository"),
    Row(
        "image-from-elsewhere",
        "beside a server from another stack's repository",
        ((_DEPLOYMENT, _made(f"{_OWN}/vllm/vllm-openai:v0.18.1@{_KNOWN}")), ("kubernetes:batch/v1:Job", _made(f"ghcr.io/a:1@{_OTHER}"))),
    ),
    *rows(
        "image-from-elsewhere",
        "kubernetes:helm.sh/v3:Release",
        ("KEDA by others", {"chart": "keda", "repositoryOpts": {"repo": "https://charts.example.com"}}),
        ("KEDA's image by others", {"chart": "keda", "values": {"image": {"keda": {"repository": "other/keda"}}}}),
        ("the picker by others", {"chart": "oci://registry.k8s.io/gateway-api-inference-extension/charts/inferencepool", "values": {"inferenceExtension": {"image": {"hub": "docker.io/other"}}}}),
        ("the pool by others", {"chart": "oci://ghcr.io/other/charts/inferencepool"}),
    ),
    *(
        Row("object-stated-in-part", kind, ((f"kubernetes:{kind}", {"metadata": {"name": "a", "namespace": "vllm"}, **more}),))
        for kind, more in (
            ("apps/v1:DeploymentPatch", {}), ("rbac.authorization.k8s.io/v1:RoleBindingPatch", {}), ("core/v1:ConfigMapPatch", {}),
            ("rbac.authorization.k8s.io/v1:RoleList", {"items": []}),
        )
    ),
)  # fmt: skip

SOUND = (
    *rows("image-not-pinned", _DEPLOYMENT, ("a digest", _made(f"a:1@{_OTHER}"))),
    *rows(
        "image-of-another-digest",
        _DEPLOYMENT,
        ("the published one", _made(f"{_SERVER}@{_KNOWN}")),
        ("an image of one's own", _made(f"docker.io/other/my-vllm:v0.18.1@{_OTHER}")),
        ("a release whose digest is not known", _made(f"docker.io/vllm/vllm-openai:v0.33.0@{_OTHER}")),
    ),
    _beside(f"{_OWN}/alpine/git:1@{_OTHER}", "the stack's repository"),
    _beside(f"{_SERVER}@{_KNOWN}", "the published server from Docker Hub"),
    _beside(pickers.LLM_D_IMAGE, "llm-d's picker from its authors' registry"),
    Row("image-from-elsewhere", "a stack without a repository", ((_DEPLOYMENT, _made(f"ghcr.io/a/b:1@{_OTHER}")),)),
    *rows(
        "image-from-elsewhere",
        "kubernetes:helm.sh/v3:Release",
        ("KEDA's own", {"chart": "keda", "repositoryOpts": {"repo": "https://kedacore.github.io/charts/"}}),
        ("KEDA's own image", {"chart": "keda", "values": {"image": {"keda": {"registry": "ghcr.io", "repository": "kedacore/keda"}}}}),
        ("a chart that is not known", {"chart": "oci://ghcr.io/other/charts/thing"}),
    ),
    *(
        Row("object-stated-in-part", kind, ((f"kubernetes:{kind}", {"metadata": {"name": "a", "namespace": space}}),))
        for kind, space in (("core/v1:ServiceAccountPatch", "vllm"), ("core/v1:NamespacePatch", ""), ("core/v1:ConfigMapPatch", "kube-system"))
    ),
)  # fmt: skip
