"""Somebody else's cluster, e.g. kind: only simulated nodes are added to it, and taken away again. Real clouds are refused."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from rehearsal.api import CONFIG_MAP, NAMESPACE, NODE, POD, ApiRefusedError, ApiUnreachableError, ClusterApi, Manifest
from rehearsal.control_plane import programs
from rehearsal.control_plane.build import Binaries
from rehearsal.control_plane.kubeconfig import minified
from rehearsal.control_plane.running import Progress, RunningCluster
from rehearsal.results import RehearsalError
from rehearsal.simulation.world import SIMULATED_NODE

OLDEST: Final = (1, 30)
"""The first release with ValidatingAdmissionPolicy, which stands for Autopilot's rules. Source: Kubernetes 1.30 release notes."""
MARKER: Final = "vllm-fleet-rehearsal"
"""ConfigMap in kube-system that says a rehearsal is at work on this cluster."""
_MARKER_NAMESPACE: Final = "kube-system"
_CLOUDS: Final = {"gce": "Google Cloud", "aws": "AWS", "azure": "Azure", "ibm": "IBM Cloud", "oci": "Oracle Cloud"}
"""Scheme of a node's providerID -> whose machine it is. Source: the clouds' controllers; kind writes kind://."""
_NEEDS: Final = (
    ("create", "", "nodes"),
    ("patch", "", "nodes/status"),
    ("delete", "", "nodes"),
    ("patch", "", "pods/status"),
    ("delete", "", "pods"),
    ("create", "", "namespaces"),
    ("create", "", "persistentvolumes"),
    ("create", "coordination.k8s.io", "leases"),
    ("create", "storage.k8s.io", "storageclasses"),
    ("patch", "storage.k8s.io", "volumeattachments/status"),
    ("create", "apiextensions.k8s.io", "customresourcedefinitions"),
    ("create", "admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("create", "rbac.authorization.k8s.io", "clusterroles"),
)
"""Verb, group and resource that a rehearsal cannot do without, in every namespace."""
_DELETES: Final = 16
"""Deletions at once when simulated nodes are taken away. Assumed."""


class BorrowedCluster(RunningCluster):
    """A cluster that a kubeconfig names, with kwok playing the simulated nodes from here.

    Entering refuses a cluster that is unreachable, GKE, on a real cloud's machines, too old, without the needed permissions, or
    not clean. Leaving removes every simulated node and its pods; what else was applied is for whoever applied it to remove.
    """

    can_restart_api_server = False

    def __init__(
        self,
        binaries: Binaries,
        kubeconfig: Path,
        context: str | None = None,
        *,
        stages: Sequence[Manifest],
        namespaces: Sequence[str] = (),
        progress: Progress = lambda _: None,
    ) -> None:
        """`namespaces`: those that the stack will make, and which therefore must not exist yet."""
        super().__init__(progress)
        self._binaries, self._stages = binaries, stages
        self._given, self._context, self._namespaces = kubeconfig, context, namespaces

    def restart_api_server(self, down_seconds: float = 0.0) -> None:
        """Refused: the API server is not ours."""
        raise RehearsalError(
            f"the API server of a borrowed cluster is not restarted (it would be down for {down_seconds:.0f} s); rehearse without "
            "--kubeconfig for that drill"
        )

    def _start(self) -> None:
        self.kubeconfig = self._folder / "kubeconfig"
        self._name = minified(self._given, self._context, self.kubeconfig)
        self._progress(f"borrowing the cluster of context {self._name}")
        self.api = ClusterApi.from_kubeconfig(self.kubeconfig)
        self._stack.callback(self.api.close)
        with self._in_words():
            self._require_version()
            self._require_permissions()
            nodes = self.api.list_all(NODE)
            self._require_no_cloud(nodes)
            self._require_clean(nodes)
            self._mark()
        self._stack.callback(self._leave)
        config = self._folder / "kwok.yaml"
        config.write_text(programs.kwok_config(self._stages), encoding="utf-8")
        if self._stages:
            self._run("kwok", programs.kwok(self._binaries.kwok, self.kubeconfig, config))

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except ApiUnreachableError as error:
            raise RehearsalError(
                f"the cluster of context {self._name} in {self._given} does not answer: {error}. Check that it runs and that "
                "this machine reaches it: kubectl version"
            ) from error
        except ApiRefusedError as refusal:
            raise RehearsalError(
                f"the cluster of context {self._name} in {self._given} refuses: {refusal.message or refusal.reason} "
                f"(HTTP {refusal.status})"
            ) from refusal

    # What is refused

    def _require_version(self) -> None:
        answer = self.api.raw("GET", "/version")
        version = str(answer["gitVersion"])
        if "gke" in version:
            raise RehearsalError(
                f"{self._name} is a GKE cluster ({version}). A rehearsal simulates GKE's part and would fight the real one, and "
                "its pods would cost money. Leave --kubeconfig away, or name a kind cluster"
            )
        numbers = tuple(int("".join(filter(str.isdigit, answer[part])) or 0) for part in ("major", "minor"))
        if numbers < OLDEST:
            raise RehearsalError(
                f"{self._name} runs Kubernetes {version}; a rehearsal needs {'.'.join(map(str, OLDEST))} or newer, for "
                "ValidatingAdmissionPolicy. Leave --kubeconfig away, or update the cluster"
            )

    def _require_permissions(self) -> None:
        lacking = [
            f"{verb} {resource}{'.' + group if group else ''}"
            for verb, group, resource in _NEEDS
            if not self._may(verb, group, resource)
        ]
        if lacking:
            raise RehearsalError(
                f"the user of context {self._name} may not do what a rehearsal needs: {', '.join(lacking)}. Use a context whose "
                "user is bound to cluster-admin"
            )

    def _may(self, verb: str, group: str, resource: str) -> bool:
        name, _, subresource = resource.partition("/")
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {
                "resourceAttributes": {"verb": verb, "group": group, "resource": name, "subresource": subresource}
            },
        }
        return bool(self.api.create(review)["status"]["allowed"])

    def _require_no_cloud(self, nodes: list[Manifest]) -> None:
        simulated = set(_simulated(nodes))  # those say what Google's would say; what they are is told further on
        for node in nodes:
            if node["metadata"]["name"] in simulated:
                continue
            scheme = str(node["spec"].get("providerID") or "").partition("://")[0]
            if scheme in _CLOUDS:
                raise RehearsalError(
                    f"node {node['metadata']['name']} of {self._name} is a machine on {_CLOUDS[scheme]}. A rehearsal belongs on a "
                    "cluster that may be thrown away: leave --kubeconfig away, or name a kind cluster"
                )

    def _require_clean(self, nodes: list[Manifest]) -> None:
        found = self.api.get(CONFIG_MAP, MARKER, _MARKER_NAMESPACE)
        if found is not None:
            by = (found.get("data") or {}).get("by", "an unknown process")
            remove = [f"kubectl --namespace {_MARKER_NAMESPACE} delete configmap {MARKER}"]
            if left := _simulated(nodes):
                remove.insert(0, f"kubectl delete nodes {' '.join(left)}")
            raise RehearsalError(
                f"a rehearsal by {by} is at work on {self._name}, or was killed there. If it is gone: {' && '.join(remove)}"
            )
        if simulated := _simulated(nodes):
            raise RehearsalError(
                f"{self._name} has simulated nodes already, which are not ours to play: {', '.join(simulated[:5])}"
                f"{' and others' if len(simulated) > 5 else ''}. Remove them: kubectl delete nodes {' '.join(simulated)}"
            )
        if others := self.api.list_all(POD, label_selector="app=kwok-controller"):
            place = others[0]["metadata"]
            raise RehearsalError(
                f"{self._name} runs a kwok of its own (pod {place['namespace']}/{place['name']}), which would play our nodes too. "
                "Remove it, or rehearse on another cluster"
            )
        if clashes := [name for name in self._namespaces if self.api.get(NAMESPACE, name) is not None]:
            raise RehearsalError(
                f"{self._name} already has the namespace {', '.join(clashes)}, which this stack would make. Remove it, or "
                "rehearse on another cluster"
            )

    # What is left behind: nothing

    def _mark(self) -> None:
        data = {"by": f"process {os.getpid()} on {os.uname().nodename}"}
        self.api.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": MARKER, "namespace": _MARKER_NAMESPACE},
                "data": data,
            }
        )

    def _leave(self) -> None:
        """Remove the simulated nodes, what runs on them, and the marker. Real nodes carry no annotation of kwok's."""
        try:
            names = _simulated(self.api.list_all(NODE))
            with ThreadPoolExecutor(_DELETES) as pool:
                list(pool.map(self._remove_node, names))
            self.api.delete(CONFIG_MAP, MARKER, _MARKER_NAMESPACE)
        except (ApiUnreachableError, ApiRefusedError) as error:
            self._progress(
                f"simulated nodes may be left in {self._name} ({error}); the next rehearsal there says how to remove them"
            )

    def _remove_node(self, name: str) -> None:
        for pod in self.api.list_all(POD, field_selector=f"spec.nodeName={name}"):
            self.api.delete(POD, pod["metadata"]["name"], pod["metadata"]["namespace"], grace_seconds=0)
        self.api.delete(NODE, name)


def _simulated(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(
        node["metadata"]["name"] for node in nodes if SIMULATED_NODE in (node["metadata"].get("annotations") or {})
    )
