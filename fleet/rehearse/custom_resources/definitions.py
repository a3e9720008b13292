"""The CustomResourceDefinitions of a GKE cluster that this project's objects need: real ones from Go modules, the rest ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fleet.rehearse.results import RehearsalError

Manifest = dict[str, Any]
SCHEMA_FOLDER: Final = Path(__file__).with_name("schemas")
"""Definitions that come in no registry: small and strict, of our own. tests/fleet/rehearse/custom_resources compares them."""

GATEWAY_API: Final = "sigs.k8s.io/gateway-api"
INFERENCE_EXTENSION: Final = "sigs.k8s.io/gateway-api-inference-extension"
SNAPSHOTTER: Final = "github.com/kubernetes-csi/external-snapshotter/client/v8"

KEDA: Final = "github.com/kedacore/keda/v2"
_KEDA_KINDS: Final = ("scaledobjects", "scaledjobs", "triggerauthentications", "clustertriggerauthentications")

REAL: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    GATEWAY_API: ("config/crd/standard", ("gatewayclasses", "gateways", "httproutes", "grpcroutes", "referencegrants")),
    # What GKE installs since 1.34.0-gke.1626000; the alpha kinds beside it are the user's own affair.
    INFERENCE_EXTENSION: ("config/crd/bases", ("inference.networking.k8s.io_inferencepools",)),
    SNAPSHOTTER: ("config/crd", ("volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots")),
}
"""Folder in each Go module, and the definitions taken from it: those that GKE preinstalls. Source: GKE docs, "Gateway API
in GKE" (standard channel) and "Volume snapshots". Not taken: group snapshots, TLS routes, listener sets."""


def definitions(module_folders: Mapping[str, Path]) -> list[Manifest]:
    """Every definition, real ones first. `module_folders` says where each module of `REAL` was unpacked.

    Raises RehearsalError when a module or one of its files is not there.
    """
    return [*real_definitions(module_folders), *own_definitions()]


def own_definitions() -> list[Manifest]:
    """The definitions that this project wrote."""
    return [manifest for path in sorted(SCHEMA_FOLDER.glob("*.yaml")) for manifest in _read(path)]


def keda_definitions(module_folders: Mapping[str, Path]) -> list[Manifest]:
    """KEDA's own definitions. GKE does not preinstall them: they come with its chart."""
    return real_definitions(module_folders, {KEDA: ("config/crd/bases", _KEDA_KINDS)})


def real_definitions(
    module_folders: Mapping[str, Path], wanted: Mapping[str, tuple[str, tuple[str, ...]]] = REAL
) -> list[Manifest]:
    """The definitions that Go modules carry, unmodified."""
    found: list[Manifest] = []
    for module, (folder, names) in wanted.items():
        root = module_folders.get(module)
        if root is None:
            raise RehearsalError(f"the Go module {module}, which carries CustomResourceDefinitions, was not fetched")
        for name in names:
            paths = [
                path for path in (root / folder).glob("*.yaml") if path.stem == name or path.stem.endswith(f"_{name}")
            ]
            if len(paths) != 1:
                raise RehearsalError(
                    f"{root / folder} has {len(paths)} files for {name}; one was expected. Another version of {module} "
                    "may name them differently: fleet/rehearse/custom_resources/definitions.py says which are taken"
                )
            found.extend(_read(paths[0]))
    return found


def _read(path: Path) -> list[Manifest]:
    import yaml

    # Measured: the C loader reads all fifteen in 0.07 s.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents = yaml.load_all(path.read_text(encoding="utf-8"), Loader=loader)
    return [one for one in documents if one and one.get("kind") == "CustomResourceDefinition"]
