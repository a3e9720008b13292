"""Takes resources out of the cluster as the engine and the provider would, one at a time or a whole graph of them."""

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
        """URNs that are deleted as a whole: what is `deletedWith` one of them goes along without a call of its own."""

    def delete(self, applied: AppliedResource) -> None:
        """Remove it from the cluster, or only forget it where the program says so. Raises OperationError."""
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
