"""What every provider of a rehearsal answers alike, over the engine's own protocol.

A provider is a server in this process; the engine attaches to it by PULUMI_DEBUG_PROVIDERS. Several operations, stacks and
configurations share it, so that a request carries all it needs.
Source: pulumi 3.274.1, proto/pulumi/provider.proto and pkg/resource/plugin/provider_plugin.go.
"""

# The protocol gives the methods their names.
# ruff: noqa: N802

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent import futures
from typing import Any, Final

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from fleet.preview.record.wire import decode_struct, encode_struct
from lab.providers.diff import diff_response

_MOST_BYTES: Final = 400 << 20
"""Of a message, as in the engine. Source: pulumi, sdk/go/common/util/rpcutil, GrpcChannelOptions."""
_THREADS: Final = 64
"""Calls at the same time. The engine makes four per processor; a call lasts as long as its resource needs."""


class RefusedError(Exception):
    """A provider's refusal."""


def type_of(urn: str) -> str:
    """A resource's own type, without its parents'."""
    return urn.split("::")[2].rpartition("$")[2]


def stack_of(urn: str) -> tuple[str, str]:
    """Project and stack of a resource."""
    stack, project, *_ = urn.removeprefix("urn:pulumi:").split("::")
    return project, stack


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """A provider whose subclass creates, reads, updates and deletes."""

    package: str
    version: str
    """As the installed SDK's: the engine looks for that one."""

    # For subclasses. Each raises RefusedError.

    def check(self, request: Any) -> tuple[dict[str, Any], list[str]]:
        """The inputs with the provider's additions, and what is wrong with them."""
        return decode_struct(request.news), []

    def create(self, request: Any) -> tuple[str, dict[str, Any]]:
        """Id and outputs; in a preview the id is empty."""
        raise NotImplementedError

    def read(self, request: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """Id, inputs and outputs of what exists; an empty id if it does not."""
        raise NotImplementedError

    def update(self, request: Any) -> dict[str, Any]:
        """The new outputs."""
        raise NotImplementedError

    def delete(self, request: Any) -> None:
        """Delete it; fine if it is gone."""
        raise NotImplementedError

    def invoke(self, token: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of a data source."""
        raise RefusedError(f"{self.package}: the rehearsal does not answer {token} ({', '.join(sorted(arguments))})")

    def configured(self, arguments: dict[str, Any]) -> None:
        """The provider has been configured like this; an operation begins."""

    # The protocol

    def Handshake(self, _request: Any, _context: Any) -> Any:
        """What this provider understands."""
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, _request: Any, _context: Any) -> Any:
        """An operation attaches."""
        return empty_pb2.Empty()

    def GetPluginInfo(self, _request: Any, _context: Any) -> Any:
        """The version."""
        return plugin_pb2.PluginInfo(version=self.version)

    def GetSchema(self, _request: Any, _context: Any) -> Any:
        """The package's name: no component is generated from it."""
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": self.package, "version": self.version}))

    def CheckConfig(self, request: Any, _context: Any) -> Any:
        """The provider's configuration, taken as it is."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, _context: Any) -> Any:
        """What a changed configuration means for the provider's resources."""
        return self._diff(request)

    def Configure(self, request: Any, _context: Any) -> Any:
        """An operation begins, once for each provider resource whose configuration is known."""
        self.configured(decode_struct(request.args))
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    def Check(self, request: Any, context: Any) -> Any:
        """Inputs as the provider wants them, or what is wrong."""

        def answer() -> Any:
            inputs, wrong = self.check(request)
            failures = [provider_pb2.CheckFailure(reason=one) for one in wrong]
            return provider_pb2.CheckResponse(inputs=encode_struct(inputs), failures=failures)

        return _answered(context, answer)

    def Diff(self, request: Any, context: Any) -> Any:
        """What an update would change."""
        return _answered(context, lambda: self._diff(request))

    def Create(self, request: Any, context: Any) -> Any:
        """Create a resource; in a preview, say what it would be."""

        def answer() -> Any:
            id_, outputs = self.create(request)
            return provider_pb2.CreateResponse(id=id_, properties=encode_struct(outputs))

        return _answered(context, answer)

    def Read(self, request: Any, context: Any) -> Any:
        """Look at a resource, for a refresh or an import."""

        def answer() -> Any:
            id_, inputs, outputs = self.read(request)
            if not id_:
                return provider_pb2.ReadResponse()
            return provider_pb2.ReadResponse(id=id_, inputs=encode_struct(inputs), properties=encode_struct(outputs))

        return _answered(context, answer)

    def Update(self, request: Any, context: Any) -> Any:
        """Change a resource in place."""

        def answer() -> Any:
            return provider_pb2.UpdateResponse(properties=encode_struct(self.update(request)))

        return _answered(context, answer)

    def Delete(self, request: Any, context: Any) -> Any:
        """Delete a resource."""

        def answer() -> Any:
            self.delete(request)
            return empty_pb2.Empty()

        return _answered(context, answer)

    def Invoke(self, request: Any, context: Any) -> Any:
        """Answer a data source."""

        def answer() -> Any:
            found = self.invoke(request.tok, decode_struct(request.args))
            return provider_pb2.InvokeResponse(**{"return": encode_struct(found)})

        return _answered(context, answer)

    def Cancel(self, _request: Any, _context: Any) -> Any:
        """Ctrl-C: every call ends by itself."""
        return empty_pb2.Empty()

    def _diff(self, request: Any) -> Any:
        return diff_response(type_of(request.urn), decode_struct(request.old_inputs), decode_struct(request.news))


class Served:
    """Providers on ports of this machine, as PULUMI_DEBUG_PROVIDERS names them. A context manager."""

    def __init__(self, *providers: Provider) -> None:
        self._providers = providers
        self._servers: list[grpc.Server] = []
        self.ports: dict[str, int] = {}
        """By package."""

    def __enter__(self) -> Served:
        for provider in self._providers:
            limits = [("grpc.max_receive_message_length", _MOST_BYTES), ("grpc.max_send_message_length", _MOST_BYTES)]
            server = grpc.server(futures.ThreadPoolExecutor(_THREADS, f"provider-{provider.package}"), options=limits)
            provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
            self.ports[provider.package] = server.add_insecure_port("127.0.0.1:0")
            server.start()
            self._servers.append(server)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.stop(None)


def _answered(context: Any, answer: Callable[[], Any]) -> Any:
    """The answer; a refusal ends the call with an error, as Go's providers do."""
    try:
        return answer()
    except RefusedError as refusal:
        context.abort(grpc.StatusCode.UNKNOWN, str(refusal))
        raise AssertionError("abort raises") from refusal
