"""A Helm release as the provider installs, waits for and removes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.values import reveal
from fleet.rehearse.api import Manifest
from fleet.rehearse.apply.manifests import HELM_MANAGER
from fleet.rehearse.apply.operations import OperationError, Operations, ref_of
from fleet.rehearse.apply.readiness import Rule, helm_judge
from fleet.rehearse.apply.state import ObjectRef

TIMEOUT_SECONDS: Final = 300.0
"""Source: pulumi-kubernetes, provider/pkg/provider/helm_release.go, defaultTimeoutSeconds. The release's own `timeout`
goes before it."""


class Releases:
    """Installs, upgrades and uninstalls."""

    def __init__(self, operations: Operations, chart_objects: Callable[[RecordedResource], list[Manifest]]) -> None:
        """`chart_objects` renders a release, in Helm's order of installing."""
        self._operations, self._chart_objects = operations, chart_objects

    def apply(
        self,
        resource: RecordedResource,
        old: Sequence[ObjectRef],
        on_missing: Callable[[str], None],
        warnings: list[str] | None = None,
    ) -> tuple[ObjectRef, ...]:
        """Install or upgrade, then wait as `helm --wait` does. Raises OperationError; what is there stays there.

        What the API server warns of is added to `warnings`.
        """
        inputs: dict[str, Any] = reveal(dict(resource.inputs))
        wanted = self._chart_objects(resource)
        refs = tuple(ref_of(one) for one in wanted)
        applied: list[Manifest] = []
        try:
            for one in wanted:
                applied.append(self._operations.create(one, HELM_MANAGER, warnings))
            for ref in old:
                if ref not in refs:
                    self._operations.delete(ref, propagation="Background", skip_await=True)
            if not inputs.get("skipAwait"):
                self._wait(applied, inputs, on_missing)
        except OperationError as error:
            there = tuple(dict.fromkeys((*old, *map(ref_of, applied))))
            raise OperationError(
                f"Helm release {inputs.get('name', resource.name)}: {error.message}",
                objects=there,
                waited_for=error.waited_for,
                outcome=error.outcome,
                unreachable=error.unreachable,
                fix=error.fix,
            ) from error
        return refs

    def _wait(self, applied: Sequence[Manifest], inputs: Mapping[str, Any], on_missing: Callable[[str], None]) -> None:
        limit = float(inputs.get("timeout") or TIMEOUT_SECONDS)
        for one in applied:
            judge = helm_judge(one["kind"])
            rule = None if judge is None else Rule(judge=judge, seconds=limit)
            self._operations.await_ready(one, rule, None, None, on_missing)

    def uninstall(self, refs: Sequence[ObjectRef]) -> None:
        """Remove every object of the release, last installed first. Raises OperationError."""
        for ref in reversed(refs):
            self._operations.delete(ref, propagation="Background", timeout_seconds=TIMEOUT_SECONDS)
