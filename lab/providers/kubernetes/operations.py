"""Create, update, delete and await single objects as pulumi-kubernetes does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar

from lab.cloud.autopilot.verdicts import verdict
from lab.control_plane.api import (
    BUSY_PAUSE_SECONDS,
    BUSY_RETRIES,
    NO_SUCH_KIND,
    UNANSWERED,
    ApiRefusedError,
    ApiUnreachableError,
    ClusterApi,
    Kind,
    Manifest,
)
from lab.providers.kubernetes.readiness import SETTLE_SECONDS, Rule, look_up
from lab.providers.kubernetes.state import ObjectRef
from lab.providers.kubernetes.verdict import Failed, Verdict
from lab.providers.kubernetes.waiter import Cancelled, Late, Outcome, TimedOut, Waiter
from lab.results.clock import Clock

T = TypeVar("T")
Propagation = Literal["Foreground", "Background"]

CREATE_RETRIES: Final = 5
CREATE_BACKOFF: Final = 2.0
"""Retries of a create that returns "not found" (namespace or kind missing), with doubled pauses.
Source: pulumi-kubernetes, provider/pkg/await/await.go, Creation."""
FIRST_PAUSE_SECONDS: Final = 1.0
"""Source: pulumi-kubernetes, provider/pkg/retry/retry.go. Only "not found" and "no matches for kind" are retried: a webhook that
does not answer fails the resource."""
LEAST_PAUSE_SECONDS: Final = 0.2
"""Minimum wall time of a pause: the API server establishes new kinds in wall time."""
BUSY: Final = frozenset({429, 503})
"""Status codes of a starting server; retried, as client-go does."""
CREATOR: Final = "pulumi-kubernetes"
"""Field manager of created objects; the first update moves its fields to the resource's manager.
Source: pulumi-kubernetes 4.29, provider/pkg/await/await.go, Creation and fixCSAFieldManagers."""
UPSERT: Final = "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"
"""Environment variable of the provider: a create updates an existing object.
Source: pulumi-kubernetes, provider/pkg/provider/provider.go, Configure, and the changelog of 4.29.0."""
# Field managers whose fields an update takes over: name prefix and operation. Source: fixCSAFieldManagers and fluxcd/pkg, ssa/patch.go.
_FORMER_MANAGERS: Final = (
    ("kubectl", "Apply"),
    ("kubectl", "Update"),
    ("before-first-apply", "Update"),
    (CREATOR, "Update"),
)
DELETE_SECONDS: Final = 600.0
"""Default timeout of a deletion. Source: pulumi-kubernetes, provider/pkg/await/await.go, Deletion."""

# Kinds for which skipAwait also skips the wait for deletion.
# Source: pulumi-kubernetes, provider/pkg/metadata/overrides.go, allowsSkipAwaitWithDelete.
_SKIP_AWAIT_ON_DELETE: Final = frozenset({"Namespace", "Deployment", "Job"})


class OperationError(Exception):
    """An error of the provider.

    `objects` exist nevertheless and belong in the state; `outcome` is how the wait for `waited_for` ended; `unreachable`: the
    API server did not answer; `fix`: used where the cluster reports no better one.
    """

    def __init__(
        self,
        message: str,
        *,
        objects: tuple[ObjectRef, ...] = (),
        waited_for: ObjectRef | None = None,
        outcome: Outcome | None = None,
        unreachable: bool = False,
        fix: str = "correct what the message reports",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.objects = objects
        self.waited_for = waited_for
        self.outcome = outcome
        self.unreachable = unreachable
        self.fix = fix


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """An accepted and ready object."""

    object: Manifest
    late_seconds: float = 0.0
    """Simulated seconds that it took, if longer than Pulumi waits."""


class Operations:
    """Creates, updates, deletes and waits. Thread-safe."""

    def __init__(
        self,
        api: ClusterApi,
        clock: Clock,
        waiter: Waiter,
        stop: threading.Event,
        killed: threading.Event,
        *,
        upsert: bool = False,
    ) -> None:
        """`stop` ends waits; `killed` ends all requests. `upsert`: creates update existing objects, as with `UPSERT`."""
        self._api, self._clock, self._waiter = api, clock, waiter
        self._stop, self._killed, self._upsert = stop, killed, upsert

    def create(self, manifest: Manifest, manager: str, warnings: list[str] | None = None) -> Manifest:
        """Create an object; warnings of the API server are added to `warnings`. Raises OperationError, also if it exists."""
        if self._upsert:
            return self.put(manifest, manager, warnings)
        return self._made(
            manifest, manager, lambda: self._api.create(manifest, field_manager=CREATOR, warnings=warnings)
        )

    def put(self, manifest: Manifest, manager: str, warnings: list[str] | None = None) -> Manifest:
        """Create or update an object. Raises OperationError; warnings as in `create`."""
        return self._made(
            manifest, manager, lambda: self._api.apply(manifest, field_manager=manager, warnings=warnings)
        )

    def _made(self, manifest: Manifest, manager: str, request: Callable[[], Manifest]) -> Manifest:
        pause = FIRST_PAUSE_SECONDS
        for attempt in range(CREATE_RETRIES + 1):
            try:
                return self._patiently(request)
            except ApiRefusedError as refusal:
                if refusal.status != 404 or attempt == CREATE_RETRIES or self._stop.is_set():
                    raise _refused(manifest, refusal, manager, "created") from refusal
            except ApiUnreachableError as error:
                # client-go retries a read after a reset connection, never a write: the operation fails.
                raise OperationError(_unreachable(manifest, error), unreachable=True) from error
            self._stop.wait(max(self._clock.wall_seconds(pause), LEAST_PAUSE_SECONDS))
            pause *= CREATE_BACKOFF
        raise AssertionError("the last attempt returns or raises")

    def read(self, ref: ObjectRef) -> Manifest | None:
        """The live object. Raises OperationError if the API does not answer."""
        try:
            return self._patiently(lambda: self._api.get(ref.kind, ref.name, ref.namespace))
        except ApiUnreachableError as error:
            raise OperationError(f"reading {ref}: {error}", unreachable=True) from error
        except ApiRefusedError as refusal:
            if refusal.status == 404:  # The kind does not exist.
                return None
            raise OperationError(f"reading {ref}: {refusal.message}") from refusal

    def update(
        self,
        manifest: Manifest,
        manager: str,
        before: Manifest,
        ignored: tuple[str, ...],
        warnings: list[str] | None = None,
    ) -> Manifest:
        """Update the live object. Raises OperationError; warnings as in `create`."""
        try:
            before = self._owned(before, manager)
            wanted = without_ignored(manifest, before, manager, ignored)
            return self._patiently(lambda: self._api.apply(wanted, field_manager=manager, warnings=warnings))
        except ApiRefusedError as refusal:
            raise _refused(manifest, refusal, manager, "updated") from refusal
        except ApiUnreachableError as error:
            raise OperationError(_unreachable(manifest, error), unreachable=True) from error

    def rehearsed(self, manifest: Manifest, manager: str, before: Manifest | None) -> Manifest:
        """What the API server would make of a create, or of an update of `before`. Raises ApiRefusedError, ApiUnreachableError."""
        if before is None and not self._upsert:
            return self._patiently(lambda: self._api.create(manifest, field_manager=CREATOR, dry_run=True))
        # Forced: a dry run cannot hand the creator's fields over first, and would conflict with itself.
        return self._patiently(lambda: self._api.apply(manifest, field_manager=manager, force=True, dry_run=True))

    def await_ready(
        self,
        applied: Manifest,
        rule: Rule | None,
        timeout_seconds: float | None,
        before: Manifest | None,
        on_missing: Callable[[str], None],
    ) -> Applied:
        """Wait by the rule. Raises OperationError, with the object, on failure or timeout."""
        if rule is None:
            return Applied(object=applied)
        limit = rule.seconds if rule.fixed or timeout_seconds is None else timeout_seconds
        outcome = self._waiter.until_ready(applied, self._judge(rule, before), limit, on_missing)
        if isinstance(outcome, Late):
            return Applied(object=applied, late_seconds=outcome.seconds)
        if isinstance(outcome, (Failed, TimedOut, Cancelled)):
            ref = ref_of(applied)
            raise OperationError(not_ready(applied, outcome, limit), objects=(ref,), waited_for=ref, outcome=outcome)
        return Applied(object=applied)

    def delete(
        self,
        ref: ObjectRef,
        *,
        timeout_seconds: float | None = None,
        skip_await: bool = False,
        propagation: Propagation = "Foreground",
    ) -> None:
        """Delete an object and wait until it is gone. Raises OperationError."""
        try:
            there = self._patiently(
                lambda: self._api.delete(ref.kind, ref.name, ref.namespace, propagation=propagation)
            )
        except ApiRefusedError as refusal:
            if refusal.status == 404:  # The kind does not exist, so neither does the object.
                return
            raise OperationError(f"deleting {ref}: {refusal.message}") from refusal
        except ApiUnreachableError as error:
            raise OperationError(f"deleting {ref}: {error}", unreachable=True) from error
        if not there or (skip_await and ref.kind.kind in _SKIP_AWAIT_ON_DELETE):
            return
        limit = DELETE_SECONDS if timeout_seconds is None else timeout_seconds
        left = self._waiter.until_gone(ref.kind, ref.name, ref.namespace, limit)
        if left is not None:
            finalizers = ", ".join(left["metadata"].get("finalizers") or ())
            because = f"; its finalizers: {finalizers}" if finalizers else ""
            raise OperationError(f"{ref} still exists {limit:.0f} s after its deletion{because}")

    def _owned(self, live: Manifest, manager: str) -> Manifest:
        """The live object after moving its creator's fields to `manager`."""
        fields = live["metadata"].get("managedFields") or []
        owned = handed_over(fields, manager)
        if owned == fields:
            return live
        ref = ref_of(live)
        body = [{"op": "replace", "path": "/metadata/managedFields", "value": owned}]
        return self._patiently(lambda: self._api.patch(ref.kind, ref.name, ref.namespace, body, patch_type="json"))

    def _patiently(self, request: Callable[[], T]) -> T:
        """The answer, with retries while the server starts. Raises OperationError after a kill."""
        if self._killed.is_set():
            raise OperationError("the process was killed")
        for _ in range(BUSY_RETRIES):
            try:
                return request()
            except ApiRefusedError as refusal:
                if refusal.status not in BUSY or self._stop.wait(BUSY_PAUSE_SECONDS):
                    raise
        return request()

    def _judge(self, rule: Rule, before: Manifest | None) -> Callable[[Manifest], Verdict]:
        quiet = _Quiet(self._clock)

        def judge(manifest: Manifest) -> Verdict:
            context = look_up(self._api, manifest, before=before)
            return rule.judge(manifest, replace(context, settled=quiet.long_enough(context.endpoint_slices)))

        return judge


class _Quiet:
    """Whether endpoints have been unchanged for the provider's ten seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: object = None
        self._since = clock.now_seconds()

    def long_enough(self, slices: Any) -> bool:
        versions = tuple(sorted(slice_["metadata"]["resourceVersion"] for slice_ in slices))
        if versions != self._last:
            self._last, self._since = versions, self._clock.now_seconds()
        return self._clock.now_seconds() - self._since >= SETTLE_SECONDS


def without_ignored(manifest: Manifest, live: Manifest, manager: str, ignored: tuple[str, ...]) -> Manifest:
    """The object with live values of its ignored fields, without those that another manager owns.

    Source: pulumi-kubernetes, provider/pkg/await/await.go, handleSSAIgnoreFields, which supports plain paths only, no lists.
    """
    wanted = manifest
    for pattern in ignored:
        path = pattern.split(".")
        ours, theirs = _owners(live, path, manager)
        if theirs and not ours:
            wanted = _without(wanted, path)
            continue
        value = _at(live, path)
        if value is not None:
            wanted = _with(wanted, path, value)
    return wanted


def handed_over(fields: list[Manifest], manager: str) -> list[Manifest]:
    """`managedFields` in which `manager` owns what the provider or kubectl wrote before."""
    own = next((field for field in fields if field["manager"] == manager and field.get("operation") == "Apply"), None)
    others = [field for field in fields if field is not own]
    former = [other for other in others if _is_former(other)]
    if not former:
        return fields
    first, *more = [own, *former] if own else former
    for one in more:
        first = {**first, "fieldsV1": _union(first.get("fieldsV1") or {}, one.get("fieldsV1") or {})}
    rest = [other for other in others if not _is_former(other)]
    return [*rest, {**first, "manager": manager, "operation": "Apply"}]


def _is_former(manifest: Manifest) -> bool:
    return not manifest.get("subresource") and any(
        manifest["manager"].startswith(name) and manifest.get("operation") == operation
        for name, operation in _FORMER_MANAGERS
    )


def _union(manifest: Manifest, other: Manifest) -> Manifest:
    return {**manifest, **{key: _union(manifest.get(key, {}), value) for key, value in other.items()}}


def _owners(live: Manifest, path: list[str], manager: str) -> tuple[bool, bool]:
    """Whether `manager` owns the field, and whether another manager does."""
    ours = theirs = False
    for entry in live.get("metadata", {}).get("managedFields") or ():
        fields: Any = entry.get("fieldsV1") or {}
        for part in path:
            fields = fields.get(f"f:{part}") if isinstance(fields, Mapping) else None
        if fields is not None:
            ours, theirs = (True, theirs) if entry.get("manager") == manager else (ours, True)
    return ours, theirs


def _at(value: Any, path: list[str]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _without(value: Manifest, path: list[str]) -> Manifest:
    head, *rest = path
    if head not in value:
        return value
    if not rest:
        return {key: item for key, item in value.items() if key != head}
    return {**value, head: _without(value[head], rest)} if isinstance(value[head], dict) else value


def _with(value: Manifest, path: list[str], new: Any) -> Manifest:
    head, *rest = path
    return {**value, head: _with(value.get(head) or {}, rest, new) if rest else new}


def _refused(manifest: Manifest, refusal: ApiRefusedError, manager: str, verb: str) -> OperationError:
    where = f"{manifest['kind']} {_path(manifest)}"
    if refusal.reason == "Conflict":
        return OperationError(
            f"{where}: Server-Side Apply field conflict detected: another field manager owns fields that {manager} sets: "
            f"{refusal.message}",
            fix="set the live value to the program's first (equal values do not conflict), leave the field to its owner with "
            'ignore_changes, or take it over with pulumi.com/patchForce: "true" for one update',
        )
    text = f"{where} was not successfully {verb} by the Kubernetes API server: {refusal.message}"
    if refusal.reason == "AlreadyExists":
        return OperationError(
            f"{text}. The resource already exists in the cluster",
            fix=f"after an interrupted `pulumi up`, run `{UPSERT}=true pulumi up` once; otherwise the object is not this "
            "stack's: choose another name",
        )
    if UNANSWERED in refusal.message:
        return OperationError(
            text,
            fix="add a dependency on a resource whose pod has a node (GKE's webhooks run in pods, and a cluster without your "
            "pods has no node), or run pulumi up again once one of your pods has a node",
        )
    if NO_SUCH_KIND in refusal.message:
        return OperationError(
            f"{where}: the Kubernetes API server reported that the apiVersion for this resource does not exist. Verify that any "
            f"required CRDs have been created: {refusal.message}",
            fix="GKE installs its kinds some time after the cluster: wait until `kubectl get crd` lists this one, then run "
            "pulumi up again",
        )
    broken = verdict(refusal.message)
    if broken is not None:
        return OperationError(
            f"{where}: GKE Autopilot refuses it: {broken.problem} (rule {broken.policy}; {broken.source})",
            fix=broken.fix,
        )
    return OperationError(text)


def _unreachable(manifest: Manifest, error: ApiUnreachableError) -> str:
    return f"{manifest['kind']} {_path(manifest)}: the Kubernetes API server is unreachable: {error}"


def not_ready(applied: Manifest, outcome: Outcome, limit_seconds: float) -> str:
    """The provider's error for an object that exists but is not ready."""
    head = f'the Kubernetes API server reported that "{_path(applied)}" failed to fully initialize or become live: '
    if isinstance(outcome, Failed):
        return head + outcome.reason
    if isinstance(outcome, Cancelled):
        return head + "the update was cancelled"
    missing = outcome.missing if isinstance(outcome, TimedOut) else ""
    return head + f"timed out after {limit_seconds / 60:g} min, still waiting for {missing}"


def _path(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def ref_of(manifest: Manifest) -> ObjectRef:
    """Reference to a manifest's object."""
    metadata = manifest["metadata"]
    return ObjectRef(kind=Kind.of(manifest), name=metadata["name"], namespace=metadata.get("namespace"))
