"""Simulated kubelets: kwok's Stage objects for nodes and pods, with durations scaled by the clock.

A pod's containers start; a pod with probes becomes Ready, or is evicted if its download exceeds its limit; a Job's pod completes; a
deleted pod ends after its preStop and stop, within its grace period. Selectors of two stages never match together: kwok would choose
at random. Durations that depend on the pod are jq expressions. kwok counts a delay from the pod's last change, so only these stages
and drills may change a running pod.
"""

from __future__ import annotations

from typing import Any, Final

from lab.cloud.cluster_view import SHUTTING_DOWN
from lab.cloud.pod_needs import GPU_RESOURCE
from lab.cloud.timings import Timings
from lab.control_plane.api import Manifest
from lab.results.clock import Clock
from workloads.names import BENCHMARK_APP, WRITER_APP

LEADER: Final = "rehearsal.vllm-fleet.dev/leader"
"""Annotation of the leading endpoint picker; the others stay unready."""
LEADER_FLAG: Final = "--ha-enable-leader-election"
"""Argument of endpoint pickers with leader election. Source: chart inferencepool v1.4.0, for more than one replica."""
LARGE_IMAGE: Final = "vllm-openai"
"""Part of the name of the large image."""

_DEFAULT_GRACE_SECONDS: Final = 30
"""Source: Kubernetes API, PodSpec.terminationGracePeriodSeconds."""

Selector = tuple[str, str, list[str]]
"""A jq expression, an operator, and values."""

_NOT_DELETED: Final[Selector] = (".metadata.deletionTimestamp", "DoesNotExist", [])
_DELETED: Final[Selector] = (".metadata.deletionTimestamp", "Exists", [])
_OF_JOB: Final = 'any(.metadata.ownerReferences[]?; .kind == "Job")'
_READY: Final = '.status.conditions.[] | select(.type == "Ready") | .status'
_ANSWERS_PROBES: Final = (
    '(any(.status.conditions[]?; .type == "DisruptionTarget" and .status == "True") | not)'
    f' and ((any(.spec.containers[].args[]?; startswith("{LEADER_FLAG}")) | not)'
    f' or (.metadata.annotations["{LEADER}"] // "") == "true")'
)
_HAS_GPUS: Final = f'any(.spec.containers[]; .resources.limits["{GPU_RESOURCE}"])'


def kubelet_stages(timings: Timings, clock: Clock) -> list[Manifest]:
    """All Stages, for these durations and this clock's speed."""
    return [
        _node_ready(),
        _start(timings, clock.speed),
        _ready(timings, clock.speed),
        _evicted(timings, clock.speed),
        _complete(timings, clock.speed),
        *_ends(timings, clock.speed),
    ]


def _stage(
    name: str,
    kind: str,
    selectors: list[Selector],
    steps: list[dict[str, Any]],
    *,
    delay_jq: str = "",
    speed: float = 1.0,
) -> Manifest:
    """`delay_jq` is a jq expression for simulated seconds."""
    spec: Manifest = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {
            "matchExpressions": [
                {"jq": {"key": key, "operator": operator, **({"values": values} if values else {})}}
                for key, operator, values in selectors
            ]
        },
        "steps": steps,
    }
    if delay_jq:
        # kwok expects a Go duration.
        as_duration = f'(({delay_jq}) * 1000 / {speed!r} | tostring) + "ms"'
        spec["delay"] = {"durationFrom": {"jq": {"expression": as_duration}}}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _status(template: str) -> dict[str, Any]:
    return {"patch": {"subresource": "status", "root": "status", "type": "strategic", "template": template}}


# Nodes: Ready once kwok holds their lease, and again after the control plane has marked them unreachable.


def _node_ready() -> Manifest:
    template = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
  message: {{ .message | Quote }}
  reason: {{ .reason | Quote }}
  status: {{ .status | Quote }}
  type: {{ .type | Quote }}
{{ end }}
phase: Running
"""
    selectors: list[Selector] = [
        (f'.metadata.annotations["{SHUTTING_DOWN}"]', "DoesNotExist", []),
        ('.status.conditions.[] | select(.type == "Ready") | .status', "NotIn", ["True"]),
    ]
    return _stage("node-ready", "Node", selectors, [_status(template)])


# Pods


def _start(timings: Timings, speed: float) -> Manifest:
    """Image pull and init containers, then the containers run; without probes they are Ready immediately."""
    template = """
{{ $now := Now }}
{{ $probed := false }}
{{ range .spec.containers }}{{ if or .readinessProbe .startupProbe }}{{ $probed = true }}{{ end }}{{ end }}
conditions:
- {type: PodReadyToStartContainers, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
{{ if $probed }}
{{ $message := "containers with unready status" }}
- {type: Ready, status: "False", reason: ContainersNotReady, message: {{ $message }}, lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "False", reason: ContainersNotReady, message: {{ $message }}, lastTransitionTime: {{ $now | Quote }}}
{{ else }}
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
{{ $waits := or .readinessProbe .startupProbe }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ .image | Quote }}
  containerID: {{ printf "containerd://simulated/%s" .name | Quote }}
  ready: {{ if $waits }}false{{ else }}true{{ end }}
  started: {{ if .startupProbe }}false{{ else }}true{{ end }}
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
{{ with .spec.initContainers }}
initContainerStatuses:
{{ range . }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ .image | Quote }}
  containerID: {{ printf "containerd://simulated/%s" .name | Quote }}
  ready: true
  restartCount: 0
  {{ if eq (or .restartPolicy "") "Always" }}
  started: true
  state: {running: {startedAt: {{ $now | Quote }}}}
  {{ else }}
  started: false
  state:
    terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}
  {{ end }}
{{ end }}
{{ end }}
{{ $hostIP := NodeIPWith .spec.nodeName }}
hostIP: {{ $hostIP | Quote }}
hostIPs: [{ip: {{ $hostIP | Quote }}}]
{{ $podIP := PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ $podIP | Quote }}
podIPs: [{ip: {{ $podIP | Quote }}}]
phase: Running
startTime: {{ $now | Quote }}
"""
    pull = (
        f'(if any(.spec.containers[]; .image | contains("{LARGE_IMAGE}")) then {timings.large_image_pull_seconds!r}'
        f" else {timings.image_pull_seconds!r} end)"
    )
    # Sidecars are not waited for.
    init = f'([.spec.initContainers[]? | select(.restartPolicy != "Always")] | length) * {timings.init_container_seconds!r}'
    selectors: list[Selector] = [
        _NOT_DELETED,
        (".spec.nodeName", "Exists", []),
        (".status.phase", "In", ["Pending"]),
    ]
    return _stage("pod-start", "Pod", selectors, [_status(template)], delay_jq=f"{pull} + {init}", speed=speed)


def _fits_its_disk(timings: Timings) -> Selector:
    """Whether a server's download is within its limit, which the program writes in GiB."""
    limits = (
        '[.spec.containers[].resources.limits["ephemeral-storage"] // "0Gi" | rtrimstr("Gi") | tonumber? // 0] | add'
    )
    return (f"({_HAS_GPUS} | not) or (({limits}) * {2**30} >= {timings.download_gb * 1e9!r})", "In", ["true"])


def _evicted(timings: Timings, speed: float) -> Manifest:
    """A pod that exceeds its limit is evicted at the end of its download. Source of the message: kubelet, eviction."""
    template = (
        """
{{ $now := Now }}
{{ $limit := index (index .spec.containers 0).resources.limits "ephemeral-storage" }}
message: {{ printf "Pod ephemeral local storage usage exceeds the total limit of containers %s." $limit | Quote }}
reason: Evicted
"""
        + _OVER % '"137"'
    )
    expression, _, _ = _fits_its_disk(timings)
    selectors: list[Selector] = [
        _NOT_DELETED,
        (".status.phase", "In", ["Running"]),
        (_READY, "In", ["False"]),
        (expression, "In", ["false"]),
    ]
    return _stage(
        "pod-evicted",
        "Pod",
        selectors,
        [_status(template)],
        delay_jq=repr(timings.weights_read_seconds),
        speed=speed,
    )


def _ready(timings: Timings, speed: float) -> Manifest:
    """Probes pass: with GPUs after weights and engine start, also after a restart; otherwise after the first probe period."""
    template = """
{{ $now := Now }}
conditions:
- {type: Ready, status: "True", reason: null, message: null, lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", reason: null, message: null, lastTransitionTime: {{ $now | Quote }}}
{{ range .status.containerStatuses }}
{{ $_ := set . "ready" true }}
{{ $_ := set . "started" true }}
{{ end }}
containerStatuses: {{ .status.containerStatuses | toJson }}
"""
    load = f"if {_HAS_GPUS} then {timings.server_load_seconds!r} else {timings.probe_seconds!r} end"
    selectors: list[Selector] = [
        _NOT_DELETED,
        (".status.phase", "In", ["Running"]),
        (_READY, "In", ["False"]),
        (_ANSWERS_PROBES, "In", ["true"]),
        _fits_its_disk(timings),
    ]
    return _stage("pod-ready", "Pod", selectors, [_status(template)], delay_jq=load, speed=speed)


_OVER = """
{{ $now := Now }}
{{ $exit := %s }}
{{ $reason := "Error" }}
{{ if eq $exit "0" }}{{ $reason = "Completed" }}{{ end }}
conditions:
- {type: Ready, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .status.containerStatuses }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ .imageID | Quote }}
  containerID: {{ .containerID | Quote }}
  ready: false
  started: false
  restartCount: {{ .restartCount }}
  state:
    terminated:
      exitCode: {{ $exit }}
      reason: {{ $reason }}
      startedAt: {{ .state.running.startedAt | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
phase: {{ if eq $exit "0" }}Succeeded{{ else }}Failed{{ end }}
"""


def _complete(timings: Timings, speed: float) -> Manifest:
    """A Job's pod ends successfully after its duration."""
    template = _OVER % '"0"'
    lasts = (
        f'if .metadata.labels.app == "{WRITER_APP}" then {timings.writer_seconds!r}'
        f' elif .metadata.labels.app == "{BENCHMARK_APP}" then {timings.benchmark_seconds!r}'
        f" else {timings.job_seconds!r} end"
    )
    selectors: list[Selector] = [
        _NOT_DELETED,
        (".status.phase", "In", ["Running"]),
        (_READY, "In", ["True"]),
        (_OF_JOB, "In", ["true"]),
    ]
    return _stage(
        "pod-complete",
        "Pod",
        selectors,
        [_status(template)],
        delay_jq=lasts,
        speed=speed,
    )


def _ends(timings: Timings, speed: float) -> list[Manifest]:
    """A deleted pod ends: immediately if it does not run, else after preStop and stop, within its grace period.

    A Job's pod is first marked Failed, as by the kubelet: a Job with a pod failure policy waits for that before a retry.
    """
    grace = f".metadata.deletionGracePeriodSeconds // .spec.terminationGracePeriodSeconds // {_DEFAULT_GRACE_SECONDS}"
    stop = f"([.spec.containers[].lifecycle.preStop.sleep.seconds // 0] | max) + {timings.exit_seconds!r}"
    running = '.status.phase == "Running"'
    lasts = f"if {running} then ([({grace}), ({stop})] | min) else 0 end"
    end = f"({running}) and ({_OF_JOB})"
    killed = _OVER % '"143"'
    return [
        _stage("pod-end", "Pod", [_DELETED, (end, "In", ["false"])], [{"delete": True}], delay_jq=lasts, speed=speed),
        _stage(
            "pod-end-of-job",
            "Pod",
            [_DELETED, (end, "In", ["true"])],
            [_status(killed), {"delete": True}],
            delay_jq=lasts,
            speed=speed,
        ),
    ]
