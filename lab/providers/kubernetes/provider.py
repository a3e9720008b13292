"""The provider of Kubernetes objects and Helm releases, on the rehearsal's API server.

It answers as pulumi-kubernetes does where a stack can notice: names that it draws, previews by a dry run, waits by kind, objects
that exist but did not become ready, drift. It always uses the rehearsal's cluster, whatever the kubeconfig says.
Source: pulumi-kubernetes of July 2026, provider/pkg/provider/provider.go and provider/pkg/await/await.go.
"""

from __future__ import annotations

import hashlib
import threading
from importlib.metadata import version
from typing import Any, Final

from facts.finding import Finding
from fleet.preview.record.redact import Redactor
from fleet.preview.record.synthesis_kubernetes import RELEASE_TYPE, kubernetes_outputs
from fleet.preview.record.values import paths_of_unknowns, reveal
from fleet.preview.record.wire import decode_struct
from lab.cloud.chart import Release
from lab.control_plane.api import NO_SUCH_KIND, ApiRefusedError, ApiUnreachableError, ClusterApi, Kind, Manifest
from lab.providers.base import Provider, half_made, type_of
from lab.providers.base import RefusedError as Refused
from lab.providers.diff import diff_response, drifted
from lab.providers.kubernetes.diagnosis import diagnose
from lab.providers.kubernetes.objects import (
    MANAGER,
    id_of,
    imported,
    named,
    outputs_of,
    placed,
    reuses_name,
)
from lab.providers.kubernetes.operations import OperationError, Operations
from lab.providers.kubernetes.options import options_of
from lab.providers.kubernetes.readiness import READ_KINDS, is_ready_now, rule_for
from lab.providers.kubernetes.releases import Releases
from lab.providers.kubernetes.state import RELEASED, ObjectRef, kind_of, ref_of_id, released_refs, released_texts
from lab.providers.kubernetes.waiter import Cancelled
from lab.providers.kubernetes.warnings import warning_findings
from lab.providers.observed import Observed
from lab.results.result import RehearsalError

_AUTONAME_BYTES: Final = 8


class Kubernetes(Provider):
    """Objects and releases. `upsert`: as with the provider's variable, a create updates an existing object."""

    package = "kubernetes"
    version = version("pulumi-kubernetes")
    makes_objects = True

    def __init__(
        self,
        observed: Observed,
        api: ClusterApi,
        operations: Operations,
        releases: Releases,
        redactor: Redactor,
        stop: threading.Event,
    ) -> None:
        """`stop` ends the waits of `operations`; the engine's Cancel sets it."""
        super().__init__(observed)
        self._api, self._operations, self._releases = api, operations, releases
        self._redactor, self._stop = redactor, stop

    def configured(self, arguments: dict[str, Any]) -> None:  # noqa: ARG002
        """A new operation: nothing is cancelled any more."""
        self._stop.clear()

    def cancelled(self) -> None:
        """Ctrl-C: what waits, ends."""
        self._stop.set()

    def title(self, urn: str, inputs: dict[str, Any]) -> str:
        """`Kind/name` of an object or a release."""
        metadata = reveal(inputs.get("metadata")) or {}
        return (
            f"{type_of(urn).rpartition(':')[2]}/{metadata.get('name') or inputs.get('name') or urn.rpartition('::')[2]}"
        )

    def check(self, request: Any) -> tuple[dict[str, Any], list[str]]:
        """The inputs with a name."""
        name, seed = request.urn.rpartition("::")[2], request.randomSeed or request.urn.encode()
        old, new = decode_struct(request.olds), decode_struct(request.news)
        if type_of(request.urn) == RELEASE_TYPE:
            drawn = f"{name}-{hashlib.sha256(seed).hexdigest()[:_AUTONAME_BYTES]}"
            return {**new, "name": new.get("name") or old.get("name") or drawn}, []
        return named(name, seed, old, new), []

    def create(self, request: Any) -> tuple[str, dict[str, Any]]:
        """Create an object and wait for it, or install a release."""
        type_, inputs = type_of(request.urn), decode_struct(request.properties)
        if type_ == RELEASE_TYPE:
            return ("", inputs) if request.preview else self._installed(request, inputs, ())
        if request.preview:
            return "", self._previewed(type_, inputs, None, _manager(request.urn))
        return self._made(request, inputs, None, _manager(request.urn))

    def update(self, request: Any) -> dict[str, Any]:
        """Update an object and wait for it, or upgrade a release."""
        type_, inputs, old = type_of(request.urn), decode_struct(request.news), decode_struct(request.olds)
        if type_ == RELEASE_TYPE:
            return inputs if request.preview else self._installed(request, inputs, released_refs(old))[1]
        ref, manager = ref_of_id(type_, request.id), str(old.get(MANAGER) or _manager(request.urn))
        before = self._live(ref)
        if before is None:
            raise Refused(f"{ref} was not found: it was deleted; run `pulumi refresh`")
        if request.preview:
            return self._previewed(type_, inputs, before, manager)
        return self._made(request, inputs, before, manager)[1]

    def read(self, request: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """What the cluster has of it; a workload that is not ready now counts as half made."""
        type_, inputs, before = type_of(request.urn), decode_struct(request.inputs), decode_struct(request.properties)
        if type_ == RELEASE_TYPE:
            there = [ref for ref in released_refs(before) if self._live(ref) is not None]
            return (request.id if there else ""), inputs, before
        live = self._live(ref_of_id(type_, request.id))
        if live is None:
            return "", {}, {}
        now = drifted(inputs, before, live) if inputs else imported(live)
        outputs = outputs_of(live, now, str(before.get(MANAGER) or _manager(request.urn)))
        waits = inputs and live["kind"] in READ_KINDS and not options_of(live).skip_await
        if waits and not is_ready_now(self._api, live):
            raise half_made(request.id, outputs, now, f"{ref_of_id(type_, request.id)} is not ready")
        return request.id, now, outputs

    def delete(self, request: Any) -> None:
        """Delete an object and wait until it is gone, or uninstall a release."""
        type_, old = type_of(request.urn), decode_struct(request.properties)
        try:
            if type_ == RELEASE_TYPE:
                self._releases.uninstall(released_refs(old))
                return
            skip = options_of(reveal(old)).skip_await
            ref = ref_of_id(type_, request.id)
            self._operations.delete(ref, timeout_seconds=request.timeout or None, skip_await=skip)
        except (OperationError, ValueError) as error:
            raise Refused(self._redactor.text(str(error))) from error

    def _diff(self, request: Any) -> Any:
        type_, old, new = type_of(request.urn), decode_struct(request.old_inputs), decode_struct(request.news)
        if type_ == RELEASE_TYPE or not type_.startswith("kubernetes:"):
            return diff_response(type_, old, new)
        also = ""
        if type_.endswith(":Job") and _replaces_unready(new):
            live = self._live(ref_of_id(type_, request.id))
            if live is not None and not is_ready_now(self._api, live):
                also = '.metadata.annotations["pulumi.com/replaceUnready"]'
        return diff_response(type_, old, new, also=also, reuses_name=reuses_name(old, new))

    # One object

    def _made(
        self, request: Any, inputs: dict[str, Any], before: Manifest | None, manager: str
    ) -> tuple[str, dict[str, Any]]:
        """Create or update it, and wait. Raises Refused, with the object if it exists."""
        kind = kind_of(type_of(request.urn))
        name, warnings = self.title(request.urn, inputs), list[str]()
        accepted: Manifest | None = None
        try:
            manifest = self._manifest(type_of(request.urn), inputs)
            options = options_of(manifest)
            if before is None:
                accepted = self._operations.create(manifest, manager, warnings)
            else:
                ignored = tuple(request.ignoreChanges)
                accepted = self._operations.update(manifest, manager, before, ignored, warnings)
            rule, timeout = rule_for(accepted, options), request.timeout or None
            ready = self._operations.await_ready(
                accepted, rule, timeout, before, lambda text: self.observed.waits(name, text)
            )
            if ready.late_seconds:
                self.observed.found(_late(request.urn, name, ready.late_seconds))
            live = self._operations.read(_ref(kind, accepted)) or accepted
        except OperationError as error:
            text = self._explained(request.urn, error)
            if accepted is None or not error.objects:
                raise Refused(text) from error
            raise half_made(id_of(accepted), outputs_of(accepted, inputs, manager), inputs, text) from error
        except ValueError as error:
            raise Refused(f"{name}: {error}") from error
        finally:
            self._warned(request.urn, name, warnings)
        return id_of(live), outputs_of(live, inputs, manager)

    def _previewed(self, type_: str, inputs: dict[str, Any], before: Manifest | None, manager: str) -> dict[str, Any]:
        """What a dry run answers; the inputs, where the API server cannot say: as the provider does."""
        if paths_of_unknowns(inputs):
            return inputs
        manifest = self._manifest(type_, inputs)
        try:
            answer = self._operations.rehearsed(manifest, manager, before)
        except ApiRefusedError as refusal:
            if refusal.status in (403, 404, 409) or NO_SUCH_KIND in refusal.message:
                return inputs
            raise Refused(self._redactor.text(refusal.message)) from refusal
        except ApiUnreachableError as error:
            raise Refused(str(error)) from error
        answer.pop("status", None)
        return outputs_of(answer, inputs, manager)

    def _manifest(self, type_: str, inputs: dict[str, Any]) -> Manifest:
        """The object to send, with placeholders for secrets: they do not leave the state."""
        return placed(kind_of(type_), self._redactor.manifest(type_, inputs))

    def _live(self, ref: ObjectRef) -> Manifest | None:
        try:
            return self._operations.read(ref)
        except OperationError as error:
            raise Refused(self._redactor.text(error.message)) from error

    # One release

    def _installed(
        self, request: Any, inputs: dict[str, Any], old: tuple[ObjectRef, ...]
    ) -> tuple[str, dict[str, Any]]:
        opened, warnings, name = reveal(inputs), list[str](), self.title(request.urn, inputs)
        release = Release(name=str(opened["name"]), namespace=str(opened.get("namespace") or "default"), inputs=opened)
        id_, extra = kubernetes_outputs(RELEASE_TYPE, release.name, inputs, uid="", address="", suffix="")
        try:
            refs = self._releases.apply(release, old, lambda text: self.observed.waits(name, text), warnings)
        except OperationError as error:
            text = self._explained(request.urn, error)
            if not error.objects:
                raise Refused(text) from error
            raise half_made(id_, {**inputs, **extra, RELEASED: released_texts(error.objects)}, inputs, text) from error
        except RehearsalError as error:
            raise Refused(str(error)) from error
        finally:
            self._warned(request.urn, name, warnings, of_chart=True)
        return id_, {**inputs, **extra, RELEASED: released_texts(refs)}

    # Reporting

    def _explained(self, urn: str, error: OperationError) -> str:
        """The error with the cluster's reason, which becomes a finding."""
        text = self._redactor.text(error.message)
        if error.unreachable or isinstance(error.outcome, Cancelled):
            return text  # Not the stack's fault.
        fix = error.fix
        if error.waited_for is not None:
            found = diagnose(self._api, error.waited_for)
            text, fix = f"{text}: {self._redactor.text(found.text)}", found.fix
        self.observed.found(Finding(id="operation-failed", subject=urn, found=text, write=fix))
        return text

    def _warned(self, urn: str, name: str, warnings: list[str], *, of_chart: bool = False) -> None:
        texts = map(self._redactor.text, warnings)
        self.observed.found(*warning_findings(urn, name, texts, of_chart=of_chart))


def _manager(urn: str) -> str:
    """Field manager of a resource: `pulumi-kubernetes-` and eight digits, which the provider draws.

    It makes two resources, or two stacks, conflict when they set a field to different values.
    """
    return f"pulumi-kubernetes-{hashlib.sha256(urn.encode()).hexdigest()[:8]}"


def _ref(kind: Kind, manifest: Manifest) -> ObjectRef:
    return ObjectRef(kind=kind, name=manifest["metadata"]["name"], namespace=manifest["metadata"].get("namespace"))


def _replaces_unready(inputs: dict[str, Any]) -> bool:
    try:
        return options_of(reveal(inputs)).replace_unready
    except ValueError:
        return False


def _late(urn: str, name: str, seconds: float) -> Finding:
    return Finding(
        id="ready-late",
        subject=urn,
        severity="warning",
        found=f"{name} became ready after {seconds / 60:.0f} simulated minutes, later than Pulumi's timeout; it counts "
        "as ready here because Kubernetes' controllers run in wall time",
        write="set a longer custom timeout, or pulumi.com/skipAwait where the provider's timeout is fixed",
    )
