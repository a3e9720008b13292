"""Helm releases as the provider installs, awaits and uninstalls them.

Helm stores a release's status in a Secret. A killed installation leaves `pending-install`, from which neither Helm nor Pulumi
recovers by itself. Helm writes a Secret per revision; here one is used for all.
Source: helm v3, pkg/storage/driver/secrets.go and pkg/action/install.go, upgrade.go; pulumi-kubernetes 4,
provider/pkg/provider/helm_release.go, Create and helmCreate.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lab.cloud.chart import Release
from lab.control_plane.api import Manifest
from lab.providers.kubernetes.operations import OperationError, Operations, ref_of
from lab.providers.kubernetes.readiness import Rule, helm_judge
from lab.providers.kubernetes.state import ObjectRef

HELM_MANAGER: Final = "helm"
"""Field manager of a chart's objects."""
TIMEOUT_SECONDS: Final = 300.0
"""Default of the release's `timeout`. Source: pulumi-kubernetes, provider/pkg/provider/helm_release.go, defaultTimeoutSeconds."""


def _record(release: Release, status: str) -> Manifest:
    """Helm's Secret for a release."""
    labels = {"owner": "helm", "name": release.name, "status": status}
    metadata = {"name": f"sh.helm.release.v1.{release.name}.v1", "namespace": release.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "metadata": metadata}


class Releases:
    """Installs, upgrades and uninstalls."""

    def __init__(self, operations: Operations, chart_objects: Callable[[Release], list[Manifest]]) -> None:
        """`chart_objects` renders a release, in Helm's installation order."""
        self._operations, self._chart_objects = operations, chart_objects

    def apply(
        self,
        release: Release,
        old: Sequence[ObjectRef],
        on_missing: Callable[[str], None],
        warnings: list[str] | None = None,
    ) -> tuple[ObjectRef, ...]:
        """Install or upgrade, then wait as `helm --wait` does. Raises OperationError; objects created so far stay.

        Warnings of the API server are added to `warnings`.
        """
        wanted = self._chart_objects(release)
        record = _record(release, "pending-upgrade" if old else "pending-install")
        refs = (ref_of(record), *map(ref_of, wanted))
        applied: list[Manifest] = []
        try:
            self._claim(record, installed=bool(old))
            applied.append(record)
            for one in wanted:
                applied.append(self._operations.put(one, HELM_MANAGER, warnings))
            for ref in old:
                if ref not in refs:
                    self._operations.delete(ref, propagation="Background", skip_await=True)
            if not release.inputs.get("skipAwait"):
                self._wait(applied, release.inputs, on_missing)
        except OperationError as error:
            if applied:
                self._end(release, "failed")
            there = tuple(dict.fromkeys((*old, *map(ref_of, applied))))
            raise OperationError(
                f"Helm release {release.name}: {error.message}",
                objects=there,
                waited_for=error.waited_for,
                outcome=error.outcome,
                unreachable=error.unreachable,
                fix=error.fix,
            ) from error
        self._end(release, "deployed")
        return refs

    def _claim(self, record: Manifest, *, installed: bool) -> None:
        """Mark the release as in progress. Raises OperationError where Helm would refuse."""
        found = self._operations.read(ref_of(record))
        status = found["metadata"]["labels"]["status"] if found else ""
        labels = f"owner=helm,name={record['metadata']['labels']['name']}"
        secrets = f"kubectl -n {record['metadata']['namespace']} delete secret -l"
        if found and not installed:
            raise OperationError(
                "cannot re-use a name that is still in use",
                fix=f"after an interrupted `pulumi up`, run `{secrets} {labels}`, then `pulumi up`",
            )
        if status.startswith("pending-"):
            raise OperationError(
                "another operation (install/upgrade/rollback) is in progress",
                fix=f"if no other operation runs: `{secrets} {labels},status={status}`, then `pulumi up`",
            )
        self._operations.put(record, HELM_MANAGER)

    def _end(self, release: Release, status: str) -> None:
        with contextlib.suppress(OperationError):  # Helm only logs it; the release stays pending.
            self._operations.put(_record(release, status), HELM_MANAGER)

    def _wait(self, applied: Sequence[Manifest], inputs: Mapping[str, Any], on_missing: Callable[[str], None]) -> None:
        limit = float(inputs.get("timeout") or TIMEOUT_SECONDS)
        for one in applied:
            judge = helm_judge(one["kind"])
            rule = None if judge is None else Rule(judge=judge, seconds=limit)
            self._operations.await_ready(one, rule, None, None, on_missing)

    def uninstall(self, refs: Sequence[ObjectRef]) -> None:
        """Delete the release's objects, last installed first. Raises OperationError."""
        for ref in reversed(refs):
            self._operations.delete(ref, propagation="Background", timeout_seconds=TIMEOUT_SECONDS)
