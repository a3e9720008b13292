"""A language host for Python: the plugin by which Pulumi's engine starts a program or a policy pack.

A script, started by the engine through the launcher that `installation.py` writes: `language_host.py EXECUTOR [FLAGS] ENGINE_ADDRESS`.
It imports nothing of this project. Each program is a process of its own, run by Pulumi's genuine `pulumi-language-python-exec`
(EXECUTOR), with this process's interpreter: the options `toolchain` and `virtualenv` of a project are not followed. The genuine host
is a Go module that no proxy serves; an installed Pulumi brings it, and is then used with it.

Source of the protocol: pulumi/pulumi, proto/pulumi/language.proto; pkg/resource/plugin/plugin.go (start and end of a plugin).
"""

# The protocol gives the methods their names.
# ruff: noqa: N802

from __future__ import annotations

import importlib.metadata
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

MOST_BYTES = 400 << 20
"""Largest message. Source: pulumi/pulumi, sdk/go/common/util/rpcutil/serve.go."""
_SAID_WHY = 32
"""Exit code of a program that has already reported its error. Source: pulumi-language-python-exec."""
_WORKERS = 32
"""Concurrent calls; each running program and policy pack occupies one. Assumed: far above what one update needs."""


class Host(language_pb2_grpc.LanguageRuntimeServicer):
    """Answers the engine."""

    def __init__(self, executor: str, engine: str) -> None:
        self.executor = executor
        self.engine = engine

    def Handshake(self, request: Any, _context: grpc.ServicerContext) -> Any:
        """The engine's address."""
        self.engine = request.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, _request: Any, _context: grpc.ServicerContext) -> Any:
        """The version of the SDK, which ships with the genuine host."""
        return plugin_pb2.PluginInfo(version=importlib.metadata.version("pulumi"))

    def GetRequiredPackages(self, _request: Any, _context: grpc.ServicerContext) -> Any:
        """None: the engine would look for plugins of providers that are attached as running servers."""
        return language_pb2.GetRequiredPackagesResponse()

    def Run(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Run a program to its end."""
        options = {
            "monitor": request.monitor_address,
            "engine": self.engine,
            "project": request.project,
            "root_directory": request.info.root_directory,
            "stack": request.stack,
            "pwd": request.pwd,
            "dry_run": str(request.dryRun).lower(),
            "parallel": str(request.parallel),
            "organization": request.organization,
        }
        flags = [word for name, value in options.items() if value for word in (f"--{name}", value)]
        environment = {
            **os.environ,
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        # Output goes where this process's goes: the engine shows it as the program's.
        with subprocess.Popen(
            [sys.executable, "-u", self.executor, *flags, request.info.entry_point, *request.args],
            env=environment,
            stdin=subprocess.DEVNULL,
        ) as program:
            context.add_callback(_ender(program))
            code = program.wait()
        if code == 0:
            return language_pb2.RunResponse()
        if code == _SAID_WHY:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"program exited with code {code}")

    def RunPlugin(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """Run a policy pack, and stream its output: the first line is its port."""
        folder = request.info.program_directory
        with subprocess.Popen(
            [sys.executable, "-u", "-m", "pulumi.policy", *request.args, folder],
            cwd=folder,
            env=dict(one.split("=", 1) for one in request.env if "=" in one),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as plugin:
            context.add_callback(_ender(plugin))
            yield from _output(plugin)
            yield language_pb2.RunPluginResponse(exitcode=plugin.wait())

    def InstallDependencies(self, _request: Any, _context: grpc.ServicerContext) -> Iterator[Any]:
        """Nothing: the interpreter has what the program needs."""
        return iter(())

    def About(self, _request: Any, _context: grpc.ServicerContext) -> Any:
        """The interpreter."""
        return language_pb2.AboutResponse(executable=sys.executable, version=sys.version.split()[0])

    def GetProgramDependencies(self, _request: Any, _context: grpc.ServicerContext) -> Any:
        """Installed Python packages."""
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[
                language_pb2.DependencyInfo(name=distribution.name, version=distribution.version)
                for distribution in importlib.metadata.distributions()
            ]
        )

    def RuntimeOptionsPrompts(self, _request: Any, _context: grpc.ServicerContext) -> Any:
        """No questions: options are not followed."""
        return language_pb2.RuntimeOptionsResponse()

    def Cancel(self, _request: Any, _context: grpc.ServicerContext) -> Any:
        """Nothing: a program ends when the engine refuses its next registration."""
        return empty_pb2.Empty()


def _ender(process: subprocess.Popen[bytes]) -> Callable[[], None]:
    """End the process with its call, whether the engine cancels or has received the answer."""

    def end() -> None:
        if process.poll() is None:
            process.terminate()

    return end


def _output(process: subprocess.Popen[bytes]) -> Iterator[Any]:
    """Answers with pieces of stdout and stderr as they come."""
    answers: queue.Queue[Any] = queue.Queue()

    def forward(stream: IO[bytes] | None, answer: Callable[[bytes], Any]) -> None:
        while piece := os.read(stream.fileno(), 1 << 16) if stream else b"":
            answers.put(answer(piece))
        answers.put(None)

    for stream, answer in (
        (process.stdout, lambda piece: language_pb2.RunPluginResponse(stdout=piece)),
        (process.stderr, lambda piece: language_pb2.RunPluginResponse(stderr=piece)),
    ):
        threading.Thread(target=forward, args=(stream, answer), daemon=True).start()
    for _ in ("stdout", "stderr"):
        while (one := answers.get()) is not None:
            yield one


def _end_with_engine(ended: threading.Event) -> None:
    """Wait for the end of stdin, a pipe that the engine holds open: it ends even if the engine is killed."""
    while os.read(sys.stdin.fileno(), 1 << 10):
        pass
    ended.set()


def main(executor: str, engine: str) -> None:
    """Serve until a signal or the engine's end, and end programs and policy packs with it."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    server = grpc.server(
        ThreadPoolExecutor(_WORKERS),
        options=[("grpc.max_receive_message_length", MOST_BYTES), ("grpc.max_send_message_length", MOST_BYTES)],
    )
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(Host(executor, engine), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    threading.Thread(target=_end_with_engine, args=(ended,), daemon=True).start()
    ended.wait()
    if os.getpgrp() == os.getpid():  # As the engine starts it; programs and policy packs are in this group.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
    os._exit(0)  # Without waiting for calls that an ended program leaves open.


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[-1])
