# ruff: noqa: N802 - the methods carry the names of Pulumi's remote procedures
"""The two ends a Pulumi program talks to, answered by plain objects: the resource monitor and the engine.

The SDK accepts objects with the methods of the gRPC stubs in place of addresses, so no server, port or thread is
needed. Other ways that were rejected: docs/decisions/10-preview.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote

from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import alias_pb2, engine_pb2, resource_pb2

from fleet.preview.record import synthesis
from fleet.preview.record.recording import (
    STACK_REFERENCE_TYPE,
    STACK_TYPE,
    Alias,
    Diagnostic,
    Mode,
    ProgramError,
    RecordedResource,
    StackOutputs,
    urn_of,
)
from fleet.preview.record.values import UNKNOWN, Secret, merge, paths_of_unknowns
from fleet.preview.record.wire import decode_struct, encode_struct

# Only what the recorder really honours: an option whose feature is missing here makes the SDK refuse the program,
# which is better than to drop it silently. So no transforms, parameterised packages or callbacks.
_FEATURES = (
    resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_DELETED_WITH,
    resource_pb2.RESOURCE_MONITOR_FEATURE_REPLACE_WITH,
)
DISABLED_PROVIDERS = "pulumi:disable-default-providers"
_PRINTED_OUTPUT = "Calling __str__ on an Output"
_SEVERITIES: Mapping[int, str] = {engine_pb2.WARNING: "warning", engine_pb2.ERROR: "error"}

_Request = resource_pb2.RegisterResourceRequest | resource_pb2.ReadResourceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What the monitor knows of the run it serves."""

    root: Path
    project: str
    stack: str
    mode: Mode
    config: Mapping[str, str]
    stack_outputs: Callable[[str], StackOutputs] | None
    is_up: bool = False


class RecordingMonitor:
    """Answers registrations as an engine would, and keeps them. Serves one run on one thread."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.resources: dict[str, RecordedResource] = {}
        self.announced: dict[str, dict[str, Any]] = {}
        self.diagnostics: list[Diagnostic] = []
        self._unconfigured: dict[str, bool] = {}
        self.cloud = synthesis.Cloud.of(context.project, context.stack, context.config)

    def GetDeploymentInfo(self, request: empty_pb2.Empty) -> resource_pb2.DeploymentInfo:  # noqa: ARG002
        """Which optional features this monitor has; asked once, before anything else."""
        return resource_pb2.DeploymentInfo(supportedFeatures=_FEATURES)

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> resource_pb2.RegisterResourceResponse:
        """Keep one resource and answer with its URN and, in known mode, plausible outputs."""
        if request.remote:
            raise ProgramError(
                f"{request.type} {request.name!r} is a remote component: only its provider could tell what it "
                "contains, so an offline preview cannot record it; create its children in the program instead"
            )
        if request.custom:
            self._refuse_disabled(request.type, request.provider, f"{request.type} {request.name!r}")
        urn = self._claim_urn(request)
        inputs = decode_struct(request.object)
        outputs, id_ = inputs, ""
        body = request.object
        if request.custom and self.context.mode == "known":
            id_, extra = synthesis.outputs_of(request.type, request.name, inputs, self.cloud)
            outputs = merge(inputs, extra)
            for key in request.additionalSecretOutputs:
                if key in outputs:
                    outputs = outputs | {key: Secret(outputs[key])}
            body = encode_struct(outputs)
        elif request.custom and self._is_unconfigured(request.provider):
            outputs, body = {}, encode_struct({})
        self.resources[urn] = _recorded(request, urn, inputs, outputs, self.context.root)
        self._check_provider(request, urn)
        # `unknown` makes the SDK treat what was not synthesised as unknown instead of as a known None, which would
        # end up in manifests as the text "None".
        return resource_pb2.RegisterResourceResponse(
            urn=urn, id=id_, object=body, unknown=request.custom and self.context.mode == "known"
        )

    def RegisterResourceOutputs(self, request: resource_pb2.RegisterResourceOutputsRequest) -> empty_pb2.Empty:
        """What a component, or the stack, says of itself once it is complete."""
        self.announced[request.urn] = decode_struct(request.outputs)
        return empty_pb2.Empty()

    def ReadResource(self, request: resource_pb2.ReadResourceRequest) -> resource_pb2.ReadResourceResponse:
        """Another stack's outputs. Reading any other resource needs a cloud, so it is refused."""
        if request.type != STACK_REFERENCE_TYPE:
            raise ProgramError(
                f"{request.name!r} reads an existing {request.type} (id {request.id!r}); an offline preview has no "
                "cloud to read from, so pass what the program needs of it as configuration"
            )
        urn = self._claim_urn(request)
        found = self._outputs_of_stack(request.id, urn)
        values: dict[str, Any] = {"name": request.id, "outputs": UNKNOWN, "secretOutputNames": UNKNOWN}
        if found.values is not None:
            secret_names = sorted(name for name, value in found.values.items() if isinstance(value, Secret))
            values |= {"outputs": dict(found.values), "secretOutputNames": secret_names}
        self.resources[urn] = _recorded(request, urn, decode_struct(request.properties), values, self.context.root)
        return resource_pb2.ReadResourceResponse(
            urn=urn, id=request.id, properties=encode_struct(values), unknown=found.values is None
        )

    def Invoke(self, request: resource_pb2.ResourceInvokeRequest) -> resource_pb2.ResourceInvokeResponse:
        """A data source; only the few that can be answered without a cloud."""
        if request.tok not in synthesis.ANSWERED_INVOKES:
            raise ProgramError(
                f"the program calls {request.tok}, which an offline preview cannot answer; it answers "
                f"{', '.join(synthesis.ANSWERED_INVOKES)}"
            )
        self._refuse_disabled(request.tok, request.provider, request.tok)
        if self.context.mode == "preview":
            return resource_pb2.ResourceInvokeResponse(unknown=True)  # only a cloud could tell
        answer = synthesis.answer_invoke(request.tok, decode_struct(request.args), self.cloud)
        return resource_pb2.ResourceInvokeResponse(**{"return": encode_struct(answer)})

    def Call(self, request: resource_pb2.ResourceCallRequest) -> NoReturn:
        """A method of a provider; never answered."""
        raise ProgramError(f"the program calls the provider method {request.tok}; an offline preview has no provider")

    def SignalAndWaitForShutdown(self, request: empty_pb2.Empty) -> empty_pb2.Empty:  # noqa: ARG002
        """The program is done; nothing here keeps it alive."""
        return empty_pb2.Empty()

    def _claim_urn(self, request: _Request) -> str:
        urn = urn_of(
            stack=self.context.stack,
            project=self.context.project,
            parent=request.parent,
            type_=request.type,
            name=request.name,
        )
        if urn in self.resources:
            first = self.resources[urn].source_position
            second = _position(request, self.context.root)
            where = f" (at {first} and {second})" if first and second else ""
            raise ProgramError(
                f"two resources have the URN {urn}{where}; give one of them another name: the engine refuses duplicates"
            )
        return urn

    def _refuse_disabled(self, token: str, provider: str, what: str) -> None:
        """Refuse what would take a default provider that the configuration disables, as the engine does.

        Source: pulumi, pkg/resource/deploy/default_providers.go (shouldDenyRequest): `*` is every package but Pulumi's own.
        """
        package = token.partition(":")[0]
        disabled = json.loads(self.context.config.get(DISABLED_PROVIDERS) or "[]")
        if not provider and package != "pulumi" and {package, "*"} & {str(name).strip() for name in disabled}:
            raise ProgramError(
                f"{what} has no explicit provider, and {DISABLED_PROVIDERS} disables the default one of {package}; pass "
                "provider= (or providers= to its component)"
            )

    def _check_provider(self, request: resource_pb2.RegisterResourceRequest, urn: str) -> None:
        if request.custom and not request.provider and request.type.startswith("kubernetes:"):
            message = (
                f"{request.name!r} has no explicit Kubernetes provider: it would go to whatever cluster the ambient "
                "kubeconfig names; pass provider= (or providers= to its component)"
            )
            self.diagnostics.append(Diagnostic(severity="error", message=message, urn=urn))

    def _is_unconfigured(self, provider: str) -> bool:
        """Whether the provider's configuration has unknown values; the engine then answers for it, without any output.

        Source: pulumi 3.259.0, pkg/resource/plugin/provider_plugin.go (Create).
        """
        urn = provider.rpartition("::")[0]
        if self.context.is_up:
            return False
        if urn not in self._unconfigured:
            made = self.resources.get(urn)
            self._unconfigured[urn] = made is not None and bool(paths_of_unknowns(dict(made.inputs)))
        return self._unconfigured[urn]

    def _outputs_of_stack(self, name: str, urn: str) -> StackOutputs:
        if self.context.stack_outputs is None:
            found = StackOutputs(values=None, source="no source of outputs was given")
        else:
            found = self.context.stack_outputs(name)
        if found.values is not None and (unknown := paths_of_unknowns(dict(found.values))):
            # The SDK would drop the unknown ones from the map, and the program would read None for them.
            reason = f"{found.source}; nobody knows {', '.join(unknown)}, and the SDK takes outputs whole or not at all"
            found = StackOutputs(values=None, source=reason)
        state = "unknown" if found.values is None else "taken"
        self.diagnostics.append(
            Diagnostic(severity="info", message=f"outputs of stack {name} are {state}: {found.source}", urn=urn)
        )
        return found


class RecordingEngine:
    """Answers the engine's side: logs, the root resource and version checks."""

    def __init__(self, context: RunContext, diagnostics: list[Diagnostic]) -> None:
        self._context = context
        self._diagnostics = diagnostics
        self._root = ""

    def Log(self, request: engine_pb2.LogRequest) -> empty_pb2.Empty:
        """Keep warnings and errors; refuse the SDK's warning about a printed Output, whose text is no value."""
        severity = _SEVERITIES.get(request.severity)
        if severity is not None:
            if _PRINTED_OUTPUT in request.message:
                raise ProgramError(printed_output(self._context.root))
            message = " ".join(request.message.split())
            self._diagnostics.append(Diagnostic(severity=severity, message=message, urn=request.urn))  # type: ignore[arg-type]
        return empty_pb2.Empty()

    def GetRootResource(self, request: engine_pb2.GetRootResourceRequest) -> engine_pb2.GetRootResourceResponse:  # noqa: ARG002
        """The stack's URN."""
        return engine_pb2.GetRootResourceResponse(urn=self._root)

    def SetRootResource(self, request: engine_pb2.SetRootResourceRequest) -> engine_pb2.SetRootResourceResponse:
        """Remember the stack's URN."""
        self._root = request.urn
        return engine_pb2.SetRootResourceResponse()

    def RequirePulumiVersion(
        self,
        request: engine_pb2.RequirePulumiVersionRequest,  # noqa: ARG002
    ) -> engine_pb2.RequirePulumiVersionResponse:
        """Accept: there is no CLI whose version could be wrong."""
        return engine_pb2.RequirePulumiVersionResponse()


def printed_output(root: Path) -> str:
    """The refusal of an Output used as text, with the line of the program that did it."""
    frame = sys._getframe()
    where = ""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(root) and "site-packages" not in path.parts and path.parent != Path(__file__).parent:
            where = f" ({path.relative_to(root)}:{frame.f_lineno})"
            break
        frame = frame.f_back  # type: ignore[assignment]
    return (
        f"an Output is used as text{where}, by str() or an f-string; its value is not known yet, so the text would be "
        "a warning: use pulumi.Output.format, Output.concat or apply"
    )


def _recorded(
    request: _Request, urn: str, inputs: dict[str, Any], outputs: dict[str, Any], root: Path
) -> RecordedResource:
    common: dict[str, Any] = {
        "urn": urn,
        "type": request.type,
        "name": request.name,
        "parent": request.parent,
        "provider": request.provider,
        "dependencies": tuple(sorted(request.dependencies)),
        "additional_secret_outputs": tuple(request.additionalSecretOutputs),
        "inputs": inputs,
        "outputs": outputs,
        "source_position": _position(request, root),
    }
    if isinstance(request, resource_pb2.ReadResourceRequest):
        return RecordedResource(**common)
    timeouts = request.customTimeouts
    return RecordedResource(
        **common,
        property_dependencies={
            key: tuple(sorted(value.urns)) for key, value in sorted(request.propertyDependencies.items()) if value.urns
        },
        custom=request.custom,
        protect=request.protect,
        retain_on_delete=request.retainOnDelete,
        custom_timeouts={
            key: value for key in ("create", "update", "delete", "read") if (value := getattr(timeouts, key))
        },
        aliases=tuple(_alias(aliase) for aliase in request.aliases),
        ignore_changes=tuple(request.ignoreChanges),
        replace_on_changes=tuple(request.replaceOnChanges),
        deleted_with=request.deletedWith,
        delete_before_replace=request.deleteBeforeReplace if request.deleteBeforeReplaceDefined else None,
    )


def _alias(alias: alias_pb2.Alias) -> Alias:
    if alias.urn:
        return Alias(urn=alias.urn)
    spec = alias.spec
    return Alias(
        name=spec.name or None,
        type=spec.type or None,
        stack=spec.stack or None,
        project=spec.project or None,
        parent_urn=spec.parentUrn or None,
        no_parent=spec.noParent,
    )


def _position(request: _Request, root: Path) -> str:
    """The innermost line of the program itself on the way to the registration."""
    own_code = root.as_uri() + "/"
    for frame in request.stackTrace.frames:
        uri = frame.pc.uri
        if uri.startswith(own_code) and "/site-packages/" not in uri:
            return f"{unquote(uri.removeprefix(own_code))}:{frame.pc.line}"
    return ""


def stack_exports(monitor: RecordingMonitor) -> dict[str, Any]:
    """The program's exports, taken from what the stack announced."""
    stack = next((urn for urn, resource in monitor.resources.items() if resource.type == STACK_TYPE), "")
    return dict(sorted(monitor.announced.get(stack, {}).items()))
