"""Programs of pods that run here: a router pod's own HAProxy, and vllm-router if it has one, with the pod's files and service account;
and of a server's pod with prefill apart from decode, everything but vLLM.

A pod becomes Ready when its readiness probe is answered, its containers restart when a program ends by itself, and its end is the
kubelet's: pause, stop signal, grace period. What is replaced: lab/cloud/routers/program.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fleet.clients.scratch import scratch
from lab.cloud.agenda import Agenda, Backoff
from lab.cloud.kubelet_stages import ANSWERS
from lab.cloud.routers.network import PodNetwork
from lab.cloud.routers.program import Place
from lab.cloud.routers.relay import kubeconfig_for, relayed
from lab.cloud.routers.router_pod import RouterEnding, RouterPod, has_pod_router
from lab.cloud.spot import KILLED, kill_containers
from lab.cloud.world import has_ended, is_ready, restarts_of
from lab.control_plane.api import POD, SERVICE, Manifest
from lab.simulators.model_server.vllm_command import put_on_path
from workloads.names import ROUTER_APP
from workloads.server.pod_end import DEFAULT_GRACE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.cloud.world import World
    from lab.control_plane.mirror import Change

ENDPOINT_DELAY_SECONDS: Final = 1.0
"""From a pod's change to updated routes on every node, simulated. Assumed, as for the servers."""
TOKEN_SECONDS: Final = 86_400


class Routers:
    """Runs the programs of each running router pod. Construct it before the world is entered, then enter it inside."""

    def __init__(self, world: World, kubeconfig: Path) -> None:
        self._world, self._kubeconfig = world, kubeconfig
        self.network = PodNetwork()
        self.endings: list[RouterEnding] = []
        """Of routers' pods that were deleted, in order."""
        self.server_endings: list[RouterEnding] = []
        """The same of servers' pods."""
        self.deaths: list[str] = []
        """Ends of logs of programs that ended by themselves."""
        self._pods: dict[str, RouterPod] = {}
        self._routes: dict[str, tuple[str, Mapping[str, str]]] = {}
        """URLs to which nodes route and the labels of their pods, by UID."""
        self._restarts: dict[str, int] = {}
        self._over: set[str] = set()
        self._selectors: dict[tuple[str, str], Mapping[str, str]] = {}
        self._lock = threading.Lock()
        self._backoff = Backoff()
        self._agenda = Agenda(world.clock, "routers", workers=8)
        self._stack = contextlib.ExitStack()
        world.pods.listen(self._on_pod)

    def __enter__(self) -> Routers:
        self._folder = self._stack.enter_context(scratch("rehearsal"))
        self._vllm = put_on_path(self._folder)
        self._stack.enter_context(self.network)
        self._api_url = self._stack.enter_context(relayed(self._kubeconfig, self.network.address))
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            running, self._pods = list(self._pods.values()), {}
        # First: an agenda waits for its calls, and these wait for programs.
        for pod in running:
            pod.kill()
        self._agenda.close()
        self._stack.close()

    def endpoints(self) -> list[str]:
        """The routers' Service's current URLs."""
        return self._routed({"app": ROUTER_APP})

    def server_endpoints(self, selector: Mapping[str, str]) -> list[str]:
        """Current URLs of servers' pods with these labels whose programs run here."""
        return [] if selector.get("app") == ROUTER_APP else self._routed(selector)

    def _routed(self, selector: Mapping[str, str]) -> list[str]:
        with self._lock:
            return [url for url, labels in self._routes.values() if selector.items() <= labels.items()]

    def pods(self) -> list[RouterPod]:
        """The routers' pods that run programs, by name."""
        return [pod for pod in self._running() if not has_pod_router(pod.pod)]

    def server_pods(self) -> list[RouterPod]:
        """The servers' pods that run programs, by name."""
        return [pod for pod in self._running() if has_pod_router(pod.pod)]

    def server_targets(self, app: str) -> list[tuple[str, str, str]]:
        """Pod, node and URL of the whole of every server's pod of this `app` whose programs run here, for scraping."""
        pods = [pod for pod in self.server_pods() if pod.pod["metadata"]["labels"].get("app") == app]
        return [(pod.name, pod.pod["spec"].get("nodeName", ""), pod.status_url) for pod in pods]

    def _running(self) -> list[RouterPod]:
        with self._lock:
            return sorted(self._pods.values(), key=lambda pod: pod.name)

    def serve_names(self, endpoints: Callable[[Mapping[str, str]], Sequence[str]]) -> None:
        """Answer questions for headless Services from now on. `endpoints`: addresses of the Ready pods with these labels."""

        def resolve(name: str) -> Sequence[str] | None:
            selector = self._selector(name)
            return None if selector is None else endpoints(selector)

        self.network.resolve = resolve

    def crash(self, name: str) -> None:
        """Kill the containers of a pod, as for want of memory."""
        (pod,) = (one for one in self.pods() if one.name == name)
        pod.crash()

    def _selector(self, name: str) -> Mapping[str, str] | None:
        """Selector of the Service `SERVICE.NAMESPACE.svc.cluster.local`."""
        service, _, rest = name.partition(".")
        key = service, rest.removesuffix(".svc.cluster.local")
        if key not in self._selectors:
            found = self._world.api.get(SERVICE, *key)
            if found is None:
                return None
            self._selectors[key] = found["spec"].get("selector") or {}
        return self._selectors[key]

    # Pods

    def _on_pod(self, change: Change, pod: Manifest, _: Manifest | None) -> None:
        metadata = pod["metadata"]
        uid: str = metadata["uid"]
        if (metadata.get("labels") or {}).get("app") != ROUTER_APP and not has_pod_router(pod):
            return
        with self._lock:
            running, over = self._pods.get(uid), uid in self._over
        if over:
            if change == "deleted" and running is not None and not metadata.get("deletionTimestamp"):
                self._agenda.soon(running.kill)
            return
        if change == "deleted" or metadata.get("deletionTimestamp") or has_ended(pod):
            self._over.add(uid)
            self._agenda.after(ENDPOINT_DELAY_SECONDS, self._unroute, uid)
            if running is not None:
                self._agenda.soon(self._end, running, 0.0 if change == "deleted" or has_ended(pod) else _grace(pod))
        elif pod["status"].get("phase") != "Running":
            return
        elif running is None:
            self._restarts[uid] = restarts_of(pod)
            self._agenda.soon(self._start, pod)
        elif restarts_of(pod) > self._restarts[uid]:
            self._restarts[uid] = restarts_of(pod)
            self._agenda.after(ENDPOINT_DELAY_SECONDS, self._unroute, uid)
            self._agenda.soon(self._restart, running)
        elif is_ready(pod):
            self._agenda.after(ENDPOINT_DELAY_SECONDS, self._route, uid)

    def _start(self, manifest: Manifest) -> None:
        uid = manifest["metadata"]["uid"]
        network = self.network
        address = network.address(uid)
        place = Place(
            address=address,
            # A pod's router listens on both, and a program here on one: rank_servers.py asks it inside of the pod.
            own=address if has_pod_router(manifest) else network.own(uid),
            nameserver=network.nameserver,
            speed=self._world.clock.speed,
        )
        pod = RouterPod(
            manifest,
            api=self._world.api,
            place=place,
            folder=self._folder / uid,
            account=self._account,
            on_death=self._on_death,
            vllm=self._vllm if has_pod_router(manifest) else "",
        )
        with self._lock:
            if uid in self._pods or uid in self._over:
                return
            self._pods[uid] = pod
        self._run(pod)

    def _run(self, pod: RouterPod) -> None:
        pod.start()
        if pod.wait_until_ready():
            self._mark(pod, "true")

    def _restart(self, pod: RouterPod) -> None:
        """After its programs have died and the kubelet's pause."""
        uid = pod.pod["metadata"]["uid"]
        with self._lock:
            if self._pods.get(uid) is not pod:
                return
            del self._pods[uid]
        pod.kill()
        self._mark(pod, "")
        self._agenda.after(self._backoff.pause_seconds(uid), self._start, pod.pod)

    def _on_death(self, pod: RouterPod, exit_code: int, log: str) -> None:
        self.deaths.append(log)
        metadata = pod.pod["metadata"]
        self._world.timeline.note("pod", metadata["name"], "a program ends by itself", mood="bad")
        current = self._world.pods.get(metadata["name"], metadata["namespace"])
        if current is not None and not metadata.get("deletionTimestamp"):
            self._agenda.soon(self._say_dead, pod, current, exit_code)

    def _say_dead(self, pod: RouterPod, current: Manifest, exit_code: int) -> None:
        # First: an unready pod that still answers would be Ready again.
        self._mark(pod, "")
        reason = "OOMKilled" if exit_code == KILLED else "Error"
        kill_containers(self._world, current, exit_code=exit_code, reason=reason)

    def _end(self, pod: RouterPod, grace_seconds: float) -> None:
        ending = pod.end(grace_seconds)
        is_server = has_pod_router(pod.pod)
        (self.server_endings if is_server else self.endings).append(ending)
        with self._lock:
            self._pods.pop(pod.pod["metadata"]["uid"], None)
        what = "server" if is_server else "router"
        text = f"{what} ends {ending.took_seconds:.0f} s after its deletion"
        self._world.timeline.note("pod", pod.name, f"{text}, killed" if ending.killed else text)

    def _mark(self, pod: RouterPod, answers: str) -> None:
        """Tell the simulated kubelet whether the readiness probe is answered."""
        metadata = pod.pod["metadata"]
        body = {"metadata": {"annotations": {ANSWERS: answers}}}
        self._world.api.patch(POD, metadata["name"], metadata["namespace"], body)

    def _route(self, uid: str) -> None:
        with self._lock:
            if uid in self._pods and uid not in self._over:
                pod = self._pods[uid]
                self._routes[uid] = pod.url, pod.pod["metadata"]["labels"]

    def _unroute(self, uid: str) -> None:
        with self._lock:
            self._routes.pop(uid, None)

    def _account(self, pod: Manifest) -> str:
        """A kubeconfig with a token of the pod's service account."""
        namespace, account = pod["metadata"]["namespace"], pod["spec"]["serviceAccountName"]
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        made = self._world.api.raw("POST", path, body={"spec": {"expirationSeconds": TOKEN_SECONDS}})
        return kubeconfig_for(self._api_url, made["status"]["token"], namespace)


def _grace(pod: Manifest) -> float:
    given = pod["metadata"].get("deletionGracePeriodSeconds")
    return float(DEFAULT_GRACE_SECONDS if given is None else given)
