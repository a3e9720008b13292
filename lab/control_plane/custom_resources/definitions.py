"""CustomResourceDefinitions of a GKE cluster: from Go modules, and copies of those that no module carries."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from lab.results.result import RehearsalError

Manifest = dict[str, Any]
_COPIES: Final = Path(__file__).with_name("gke")
"""Google's and Kubernetes' own files, unmodified: THIRD-PARTY.md has repository, commit and date of each."""

GATEWAY_API: Final = "sigs.k8s.io/gateway-api"
INFERENCE_EXTENSION: Final = "sigs.k8s.io/gateway-api-inference-extension"
SNAPSHOTTER: Final = "github.com/kubernetes-csi/external-snapshotter/client/v8"

KEDA: Final = "github.com/kedacore/keda/v2"
_KEDA_KINDS: Final = ("scaledobjects", "scaledjobs", "triggerauthentications", "clustertriggerauthentications")

MODULES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    GATEWAY_API: ("config/crd/standard", ("gatewayclasses", "gateways", "httproutes", "grpcroutes", "referencegrants")),
    # Preinstalled by GKE since 1.34.0-gke.1626000, without the alpha kinds.
    INFERENCE_EXTENSION: ("config/crd/bases", ("inference.networking.k8s.io_inferencepools",)),
    SNAPSHOTTER: ("config/crd", ("volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots")),
}
"""Folder and definitions of each Go module: those that GKE preinstalls. Source: GKE docs, "Gateway API
in GKE" (standard channel) and "Volume snapshots". Not taken: group snapshots, TLS routes, listener sets."""


def definitions(module_folders: Mapping[str, Path]) -> list[Manifest]:
    """All definitions. `module_folders`: folder of each module of `MODULES`.

    Raises RehearsalError for a missing module or file.
    """
    return [*module_definitions(module_folders), *gke_definitions()]


def gke_definitions() -> list[Manifest]:
    """Of kinds that no Go module carries."""
    return [manifest for path in sorted(_COPIES.glob("*.gz")) for manifest in _read(gzip.decompress(path.read_bytes()))]


def keda_definitions(module_folders: Mapping[str, Path]) -> list[Manifest]:
    """KEDA's definitions, which come with its chart."""
    return module_definitions(module_folders, {KEDA: ("config/crd/bases", _KEDA_KINDS)})


def module_definitions(
    module_folders: Mapping[str, Path], wanted: Mapping[str, tuple[str, tuple[str, ...]]] = MODULES
) -> list[Manifest]:
    """Unmodified definitions from Go modules."""
    found: list[Manifest] = []
    for module, (folder, names) in wanted.items():
        root = module_folders.get(module)
        if root is None:
            raise RehearsalError(f"the Go module {module}, which has CustomResourceDefinitions, is missing")
        for name in names:
            paths = [
                path for path in (root / folder).glob("*.yaml") if path.stem == name or path.stem.endswith(f"_{name}")
            ]
            if len(paths) != 1:
                raise RehearsalError(
                    f"{root / folder} has {len(paths)} files for {name}, expected one. Another version of {module} may name "
                    "them differently: see lab/control_plane/custom_resources/definitions.py"
                )
            found.extend(_read(paths[0].read_bytes()))
    return found


def _read(text: bytes) -> list[Manifest]:
    # Measured: the C loader reads the six copies in 0.07 s.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents = yaml.load_all(text, Loader=loader)
    return [document for document in documents if document and document.get("kind") == "CustomResourceDefinition"]
