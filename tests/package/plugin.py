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
from pulumi.runtime.proto import (
    engine_pb2_grpc,
    errors_pb2,
    provider_pb2,
    provider_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
    status_pb2,
)

from fleet.preview.record.monitor import RecordingEngine, RecordingMonitor, RunContext
from fleet.preview.record.recording import Mode, urn_of
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

    def __init__(self, stub: provider_pb2_grpc.ResourceProviderStub, until_the_end: contextlib.ExitStack) -> None:
        self.stub = stub
        self._until_the_end = until_the_end

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
        context = RunContext(root=ROOT, project=PROJECT, stack=STACK, mode=mode, config={}, stack_outputs=None)
        monitor = Monitor(context)
        # As an engine's, it outlives the call: of a refused one, a question about a provider may still be on its way.
        address = self._until_the_end.enter_context(serving(monitor, context))
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
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(Bridged(monitor), server)
    engine_pb2_grpc.add_EngineServicer_to_server(Bridged(engine), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class Bridged:
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
    """The plugin of `folder`, started as the engine does it: the folder is the program, the working folder the consumer's.

    Source: pulumi, sdk/python/cmd/pulumi-language-python/main.go, RunPlugin. What it complains of is in `elsewhere`/stderr.
    """
    context = RunContext(root=ROOT, project=PROJECT, stack=STACK, mode="known", config={}, stack_outputs=None)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "PYTHONPATH"))}
    if folder.parent == ROOT:  # an editable installation of another checkout must not come first
        environment["PYTHONPATH"] = str(ROOT)
    with serving(RecordingMonitor(context), context) as engine, (elsewhere / "stderr").open("w") as complaints:
        process = subprocess.Popen(
            [sys.executable, str(folder), engine],
            cwd=elsewhere,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port.isdigit(), (elsewhere / "stderr").read_text()
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, contextlib.ExitStack() as until_the_end:
                yield Plugin(provider_pb2_grpc.ResourceProviderStub(channel), until_the_end)
        finally:
            process.terminate()
            process.communicate(timeout=30)


def refusals(error: grpc.RpcError) -> dict[str, str]:
    """The inputs that were refused and why, as the engine reads them out of the answer."""
    status, details = status_pb2.Status(), errors_pb2.InputPropertiesError()
    status.ParseFromString(dict(error.trailing_metadata())["grpc-status-details-bin"])  # type: ignore[attr-defined]
    status.details[0].Unpack(details)
    return {one.property_path: one.reason for one in details.errors}
