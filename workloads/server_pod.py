"""The server's pod, as data: what it runs, mounts, asks of its node, and how it starts and ends. No resource is made here.

The capacity mode reaches the pod through `settings.placement` alone, the engine's flags through `vllm_args` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from settings.capacity import GPUS_PER_NODE
from settings.lessons import repeated_on_purpose
from workloads import api_key, hf_token, names, vllm_args

if TYPE_CHECKING:
    import pulumi

    from settings.engine import Engine
    from settings.settings import Settings
    from workloads.weights import WeightsMount

USER_ID: Final = 2000
"""User and group of the containers. Not root, and not a user of the image: everything the image runs is world-readable,
and everything it writes is on a volume. Source: the non-root target of vLLM's later images uses the same number."""

PROVISIONING_MINUTES: Final = 15
"""Minutes a node may take to appear. Measured: 5 to 6 in the article; the rest is for zones that are nearly full."""

PROBE_PERIOD_SECONDS: Final = 10
LONGEST_DRAIN_SECONDS: Final = 120
"""Sleep before the stop signal where several API servers would cut the streams at it. Measured: a request of the record
takes 24 s on average, and 11.6 s + 512 x 0.073 s = 49 s at both 99th percentiles; twice that, rounded."""
EXIT_SECONDS: Final = 10
"""From the end of the drain to the kill: vLLM leaves its processes 5 s, and closing eight engines takes a few more.
Source: vLLM 0.18.1, launcher.py."""

_TMP, _CACHE, _SHM = "tmp", "cache", "shm"
_CACHE_PATH: Final = "/cache"
"""Compiled kernels and graphs, and everything else that libraries keep. Outlives the container, not the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """How a server pod ends: sleep while endpoints go, then the stop signal, then the kill."""

    pre_stop_seconds: int
    """Before the stop signal; requests in flight go on."""
    grace_seconds: int
    """From the beginning to the kill, the sleep included."""

    @property
    def after_signal_seconds(self) -> int:
        """What is left for running requests after the stop signal, where vLLM can use it."""
        return max(0, self.grace_seconds - self.pre_stop_seconds - EXIT_SECONDS)


def drain(settings: Settings) -> Drain:
    """The drain that fits the capacity's grace and the number of API servers; docs/decisions/0010 has the reasons."""
    placement = settings.placement
    grace, pre_stop = placement.grace_seconds, placement.pre_stop_seconds
    if settings.serving.engine.api_servers > 1:
        # The parent stops its API servers first, so nothing is delivered after the signal: all draining is sleep.
        pre_stop = max(pre_stop, min(LONGEST_DRAIN_SECONDS, grace - EXIT_SECONDS))
    # The API refuses a sleep longer than the grace.
    return Drain(pre_stop_seconds=max(0, min(pre_stop, grace - 1)), grace_seconds=grace)


def pod_template(settings: Settings, *, image: pulumi.Input[str], weights: WeightsMount | None) -> dict[str, Any]:
    """The Deployment's pod template."""
    return {
        "metadata": {
            "labels": names.labels(settings, settings.server.name),
            "annotations": declared_needs(settings),
        },
        "spec": pod_spec(settings, image=image, weights=weights),
    }


def declared_needs(settings: Settings) -> dict[str, str]:
    """What the settings say about the traffic, on the object itself: for policies and for whoever reads the cluster."""
    serving = settings.serving
    return {
        "vllm-fleet.dev/profile": serving.profile.name,
        "vllm-fleet.dev/model": serving.model.id,
        "vllm-fleet.dev/model-revision": serving.model.revision,
        "vllm-fleet.dev/context-tokens": str(serving.context_tokens),
        "vllm-fleet.dev/concurrency-per-replica": str(serving.concurrency_per_replica),
        **_on_purpose(settings),
    }


def _on_purpose(settings: Settings) -> dict[str, str]:
    """Which lessons the profile repeats because it reproduces a published row, so that a policy can tell them from slips."""
    repeated = repeated_on_purpose(settings)
    if settings.serving.profile.reproduces is None or not repeated:
        return {}
    return {
        "vllm-fleet.dev/reproduces": settings.serving.profile.reproduces,
        "vllm-fleet.dev/on-purpose": ",".join(repeated),
    }


def pod_spec(settings: Settings, *, image: pulumi.Input[str], weights: WeightsMount | None) -> dict[str, Any]:
    """The pod: one container on a whole A4 node."""
    placement = settings.placement
    spec: dict[str, Any] = {
        "serviceAccountName": names.SERVER_ACCOUNT,
        "automountServiceAccountToken": False,
        # A Service called `vllm` would inject VLLM_PORT=tcp://..., which vLLM refuses to start with.
        "enableServiceLinks": False,
        "nodeSelector": dict(placement.node_selector),
        "tolerations": [dict(toleration) for toleration in placement.tolerations],
        "terminationGracePeriodSeconds": drain(settings).grace_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            # No fsGroup: the kubelet would change the owner of every file on the weights volume, which is read-only.
            # The writable volumes are emptyDirs, open to any user.
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container(settings, image=image, weights=weights)],
        "volumes": volumes(settings, weights),
    }
    if len(settings.zones) > 1:
        # Evenly over the zones that have the weights, but a replica in the wrong zone beats none.
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": names.selector(settings.server.name)},
            }
        ]
    return spec


def container(settings: Settings, *, image: pulumi.Input[str], weights: WeightsMount | None) -> dict[str, Any]:
    """The vLLM container."""
    sleep = drain(settings).pre_stop_seconds
    spec: dict[str, Any] = {
        "name": "vllm",
        "image": image,
        "command": command(settings),
        "args": arguments(settings, weights),
        "env": environment(settings, weights),
        "ports": [{"name": names.HTTP_PORT_NAME, "containerPort": names.HTTP_PORT, "protocol": "TCP"}],
        "resources": resources(settings),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": mounts(settings, weights),
        **probes(settings),
    }
    if sleep > 0:
        # The kubelet sleeps by itself; the image needs no shell for it.
        spec["lifecycle"] = {"preStop": {"sleep": {"seconds": sleep}}}
    return spec


def engine(settings: Settings) -> Engine:
    """The settings' engine, with a shutdown time-out where one works and none is chosen: with a single API server."""
    chosen = settings.serving.engine
    left = drain(settings).after_signal_seconds
    if chosen.shutdown_timeout_seconds is None and chosen.api_servers == 1 and left > 0:
        return chosen.but({"shutdownTimeoutSeconds": left})
    return chosen


def served_model_name(settings: Settings) -> str:
    """The name clients ask for."""
    return settings.serving.engine.served_model_name or settings.serving.model.id


def arguments(settings: Settings, weights: WeightsMount | None) -> list[str]:
    """The engine's flags, for the mounted model or for the repository at its pinned revision."""
    model = settings.serving.model
    path = model.id if weights is None else weights.model_path
    flags = vllm_args.args(engine(settings), model_path=path, served_model_name=served_model_name(settings))
    return [*flags, f"--revision={model.revision}"] if weights is None else flags


def command(settings: Settings) -> list[str]:
    """The entry point; with an API key, started by the program that reads the key's file."""
    plain = vllm_args.command(settings.serving.engine)
    return api_key.command_with_key("VLLM_API_KEY", plain) if settings.guards_v1_only else plain


def environment(settings: Settings, weights: WeightsMount | None) -> list[dict[str, str]]:
    """Environment variables: what vLLM shall do, and where it may write."""
    offline = weights is not None
    variables = [
        *vllm_args.env(
            settings.serving.engine,
            ready_timeout_seconds=settings.server.startup_minutes * 60,
            offline=offline,
        ),
        *vllm_args.writable_environment(_CACHE_PATH),
    ]
    if not offline and hf_token.needs_token(settings):
        variables.append({"name": "HF_TOKEN_PATH", "value": names.HF_TOKEN_PATH})
    return variables


def resources(settings: Settings) -> dict[str, dict[str, str]]:
    """Requests and limits, equal: GPUs must be, and Autopilot would make the rest so and leave a difference."""
    asked = settings.server.resources
    amounts = {
        "cpu": str(asked.cpu),
        "memory": f"{asked.memory_gib}Gi",
        "ephemeral-storage": f"{asked.ephemeral_storage_gib}Gi",
        "nvidia.com/gpu": str(GPUS_PER_NODE),
    }
    return {"requests": amounts, "limits": dict(amounts)}


def probes(settings: Settings) -> dict[str, Any]:
    """Start-up by budget; readiness by half a minute; liveness late, because a restart costs minutes of eight GPUs."""
    get = {"path": "/health", "port": names.HTTP_PORT_NAME}
    return {
        "startupProbe": {
            "httpGet": get,
            "periodSeconds": PROBE_PERIOD_SECONDS,
            "timeoutSeconds": 5,
            "failureThreshold": settings.server.startup_minutes * 60 // PROBE_PERIOD_SECONDS,
        },
        "readinessProbe": {
            "httpGet": get,
            "periodSeconds": PROBE_PERIOD_SECONDS,
            # /health waits its turn among the streams of a busy API server; a pod taken out too soon hands its 2,000
            # requests to the others.
            "timeoutSeconds": 10,
            "failureThreshold": 3,
        },
        "livenessProbe": {
            "httpGet": get,
            "periodSeconds": PROBE_PERIOD_SECONDS,
            "timeoutSeconds": 10,
            # Two minutes. A dead engine ends the process by itself; this is for a server that hangs.
            "failureThreshold": 12,
            # A hung server will not drain: no use in waiting the whole grace for it.
            "terminationGracePeriodSeconds": min(30, max(1, drain(settings).grace_seconds)),
        },
    }


def volumes(settings: Settings, weights: WeightsMount | None) -> list[dict[str, Any]]:
    """Weights, shared memory, and the only places where anything can be written."""
    found: list[dict[str, Any]] = [
        # Both on the node's local SSDs, counted against the pod's ephemeral storage.
        {"name": _TMP, "emptyDir": {}},
        {"name": _CACHE, "emptyDir": {}},
        {"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": f"{settings.server.resources.shm_gib}Gi"}},
    ]
    if weights is not None:
        found.append(weights.volume())
    elif (token := hf_token.token_volume(settings)) is not None:
        found.append(token)
    if settings.guards_v1_only:
        found.append(api_key.volume(settings))
    return found


def mounts(settings: Settings, weights: WeightsMount | None) -> list[dict[str, Any]]:
    """Where the volumes are in the container."""
    found: list[dict[str, Any]] = [
        {"name": _TMP, "mountPath": "/tmp"},
        {"name": _CACHE, "mountPath": _CACHE_PATH},
        {"name": _SHM, "mountPath": "/dev/shm"},
    ]
    if weights is not None:
        found.append(weights.volume_mount())
    elif hf_token.needs_token(settings):
        found.append(hf_token.token_mount())
    if settings.guards_v1_only:
        found.append(api_key.mount())
    return found
