"""A provider that creates whatever it is given: the engine's own behaviour, without a cloud. For tests only."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf import empty_pb2, struct_pb2
from google.protobuf.json_format import MessageToDict
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

OPTIONS = [("grpc.max_receive_message_length", 400 << 20), ("grpc.max_send_message_length", 400 << 20)]


class PassingProvider(provider_pb2_grpc.ResourceProviderServicer):
    """Resources are their inputs. A test may hold creations, refuse some, and reads what was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        """Method and resource name of every call that changes something."""
        self.refused: dict[str, str] = {}
        """Reason for a creation that fails, by resource name."""
        self.held = threading.Event()
        """Creations wait until it is set."""
        self.held.set()

    def Handshake(self, _request: Any, _context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    def Attach(self, _request: Any, _context: Any) -> Any:
        return empty_pb2.Empty()

    def Cancel(self, _request: Any, _context: Any) -> Any:
        return empty_pb2.Empty()

    def GetPluginInfo(self, _request: Any, _context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="1.0.0")

    def CheckConfig(self, request: Any, _context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, _request: Any, _context: Any) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, _request: Any, _context: Any) -> Any:
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Check(self, request: Any, _context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request: Any, _context: Any) -> Any:
        """Properties named `fixed` need a replacement."""
        old, new = MessageToDict(request.old_inputs), MessageToDict(request.news)
        changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=some if changed else none, diffs=changed, replaces=[one for one in changed if one == "fixed"]
        )

    def Create(self, request: Any, context: Any) -> Any:
        if request.preview:
            return provider_pb2.CreateResponse(properties=request.properties)
        self.calls.append(("create", request.name))
        self.held.wait()
        if why := self.refused.get(request.name):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, why)
        return provider_pb2.CreateResponse(id=f"id-of-{request.name}", properties=request.properties)

    def Read(self, request: Any, _context: Any) -> Any:
        return provider_pb2.ReadResponse(
            id=request.id, properties=request.properties, inputs=request.inputs or request.properties
        )

    def Update(self, request: Any, _context: Any) -> Any:
        if not request.preview:
            self.calls.append(("update", request.name))
        return provider_pb2.UpdateResponse(properties=request.news)

    def Delete(self, request: Any, _context: Any) -> Any:
        self.calls.append(("delete", request.name))
        return empty_pb2.Empty()

    def Invoke(self, request: Any, _context: Any) -> Any:
        answer = struct_pb2.Struct()
        answer.CopyFrom(request.args)
        return provider_pb2.InvokeResponse(**{"return": answer})


@contextlib.contextmanager
def served(provider: PassingProvider) -> Iterator[int]:
    """Serve it; gives the port."""
    server = grpc.server(ThreadPoolExecutor(32), options=OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        provider.held.set()
        server.stop(None)
