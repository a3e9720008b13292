"""Deletion of single resources as the engine and the provider do it."""

from __future__ import annotations

from collections.abc import Collection

from fleet.rehearse.apply.manifests import is_release
from fleet.rehearse.apply.operations import OperationError, Operations
from fleet.rehearse.apply.options import annotated, custom_timeout_seconds
from fleet.rehearse.apply.releases import Releases
from fleet.rehearse.apply.state import AppliedResource


class Deletion:
    """Deletes single resources."""

    def __init__(self, operations: Operations, releases: Releases) -> None:
        self._operations, self._releases = operations, releases
        self.going: Collection[str] = ()
        """URNs being deleted: resources with `deletedWith` one of them need no call."""

    def delete(self, applied: AppliedResource) -> None:
        """Delete it, unless the program retains it. Raises OperationError."""
        resource = applied.resource
        if resource.retain_on_delete or not applied.objects or resource.deleted_with in self.going:
            return
        if is_release(resource):
            self._releases.uninstall(applied.objects)
            return
        try:
            options, timeout = annotated(resource), custom_timeout_seconds(resource, "delete")
        except ValueError as error:
            raise OperationError(str(error)) from error
        for ref in applied.objects:
            self._operations.delete(ref, timeout_seconds=timeout, skip_await=options.skip_await)
