"""The package as the engine runs it: a process, its port on stdout, gRPC both ways; the project's recorder is the engine's end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2, provider_pb2_grpc, resource_pb2, resource_pb2_grpc

from fleet.preview.record.monitor import RecordingEngine, RecordingMonitor, RunContext
from fleet.preview.record.recording import Mode, RecordedResource, urn_of
from fleet.preview.record.wire import decode_struct, encode_struct
from tests.inventory import ROOT

PROJECT, STACK = "vllm-fleet", "dev"
"""Also the consumer's, here: the program and its package then make the same names."""
PARENT = urn_of(stack=STACK, project=PROJECT, parent="", type_="pulumi:pulumi:Stack", name=f"{PROJECT}-{STACK}")
PROVIDER = urn_of(stack=STACK, project=PROJECT, parent="", type_="pulumi:providers:kubernetes", name="mine") + "::id"
"""The consumer's own Kubernetes provider."""


class Monitor(RecordingMonitor):
    """The recorder, which also knows the consumer's provider, as an engine knows every resource of the stack."""

    def Invoke(self, request: resource_pb2.ResourceInvokeRequest) -> resource_pb2.ResourceInvokeResponse:
        if request.tok != "pulumi:pulumi:getResource":
            return super().Invoke(request)
        urn = decode_struct(request.args)["urn"]
        return resource_pb2.ResourceInvokeResponse(**{"return": encode_struct({"urn": urn, "id": "id", "state": {}})})


class Plugin:
    """A running package."""

    def __init__(self, port: int, engine: int) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.stub = provider_pb2_grpc.ResourceProviderStub(self._channel)
        self._engine = engine

    def close(self) -> None:
        self._channel.close()

    def schema(self) -> str:
        answer: str = self.stub.GetSchema(provider_pb2.GetSchemaRequest(), timeout=60).schema
        return answer

    def construct(
        self,
        component: str,
        name: str,
        inputs: Mapping[str, Any],
        *,
        mode: Mode = "known",
        providers: Mapping[str, str] | None = None,
        dependencies: Mapping[str, list[str]] | None = None,
    ) -> tuple[dict[str, Any], RecordingMonitor, provider_pb2.ConstructResponse]:
        """The component's outputs, what it registered, and the whole answer. Raises grpc.RpcError."""
        context = RunContext(root=ROOT, project=PROJECT, stack=STACK, mode=mode, config={}, stack_outputs=None, live={})
        monitor = Monitor(context)
        with serving(monitor, context) as address:
            answer = self.stub.Construct(
                provider_pb2.ConstructRequest(
                    project=PROJECT,
                    stack=STACK,
                    dryRun=mode == "preview",
                    parallel=16,
                    monitorEndpoint=address,
                    type=f"vllm-fleet:index:{component}",
                    name=name,
                    parent=PARENT,
                    inputs=encode_struct(dict(inputs)),
                    inputDependencies={
                        key: provider_pb2.ConstructRequest.PropertyDependencies(urns=urns)
                        for key, urns in (dependencies or {}).items()
                    },
                    providers=providers,
                ),
                timeout=120,
            )
        return decode_struct(answer.state), monitor, answer


@contextlib.contextmanager
def serving(monitor: RecordingMonitor, context: RunContext) -> Iterator[str]:
    """The recorder's monitor and engine at an address."""
    engine = RecordingEngine(context, monitor.diagnostics)
    server = grpc.server(ThreadPoolExecutor(max_workers=1))  # a recorder serves one thread
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(_bridged(monitor), server)
    engine_pb2_grpc.add_EngineServicer_to_server(_bridged(engine), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class _bridged:
    """gRPC calls a servicer with a context, which the recorder does without."""

    def __init__(self, target: object) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name, None)

        def call(request: Any, context: grpc.ServicerContext) -> Any:
            if method is None:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, name)
            try:
                return method(request)  # type: ignore[misc]
            except Exception as error:
                context.abort(grpc.StatusCode.UNKNOWN, str(error))

        return call


@contextlib.contextmanager
def running(folder: Path, elsewhere: Path) -> Iterator[Plugin]:
    """The plugin of `folder`, started as pulumi-language-python does it: the folder is the program, the working folder is the consumer's."""
    context = RunContext(root=ROOT, project=PROJECT, stack=STACK, mode="known", config={}, stack_outputs=None, live={})
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
    with serving(RecordingMonitor(context), context) as engine:
        process = subprocess.Popen(
            [sys.executable, str(folder), engine],
            cwd=elsewhere,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            port = process.stdout.readline()
            assert port.strip().isdigit(), process.stderr.read() if process.poll() is not None else port
            plugin = Plugin(int(port), 0)
            yield plugin
            plugin.close()
        finally:
            process.terminate()
            process.communicate(timeout=30)


def children(monitor: RecordingMonitor, component: str) -> dict[tuple[str, str], RecordedResource]:
    """What a component registered, without itself, by type and by name without the component's."""
    return {
        (one.type, one.name.removeprefix(f"{component}-")): one
        for one in monitor.resources.values()
        if one.name != component
    }
