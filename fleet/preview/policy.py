"""Runs a CrossGuard policy pack as a process and queries it over the published Analyzer protocol.

The pack is the one `pulumi preview --policy-pack policy` would run, started the way the engine starts it. The process
is spawned first and queried later, so that it starts during imports and recording.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from facts.finding import Finding, Severity
from facts.lessons.verdict import REPEATED_ON_PURPOSE, decode
from fleet import program_folder
from fleet.preview import children
from fleet.preview.policy_config import LEVELS, STOPS, Given, Level, PolicyError, PolicyState, config_file
from fleet.preview.record.recording import ORGANIZATION, STACK_REFERENCE_TYPE, RecordedResource, Recording
from fleet.preview.record.redact import Redactor
from fleet.preview.record.values import Secret, Value

if TYPE_CHECKING:
    from types import TracebackType

    from fleet.preview.policy_messages import PolicyMessages

SEVERITIES: Final = ("", "low", "medium", "high", "critical")
"""By their number in the protocol."""

PACK_FILE: Final = "PulumiPolicy.yaml"
_START_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 60.0
_ASKED_AT_ONCE: Final = 256
"""Measured 2026-11-22, gRPC 1.85.1: with 1,000 at once all are answered, with 2,500 some are cancelled."""
_KEPT_STDERR_LINES: Final = 20
_Asked = tuple[str, Any]
"""A URN and its pending answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One verdict of the pack."""

    policy: str
    level: Level
    urn: str
    """The resource, or the stack when the rule named none."""
    message: str
    description: str = ""
    """What the policy asks for, by itself; a pack's SDK also begins the message with it."""
    severity: str = ""
    """`low`, `medium`, `high` or `critical`; empty where the pack does not say."""
    rated: Severity | None = None
    """How the check of the stack file rates the same lesson, where it has a finding about it."""

    @property
    def finding(self) -> Finding:
        """What the message says, about the resource."""
        severity: Severity = "error" if self.level in STOPS else self.rated or "warning"
        if self.policy == REPEATED_ON_PURPOSE:
            severity = "deliberate"
        return decode(
            self.message, policy=self.policy, subject=self.urn, severity=severity, description=self.description
        )


def find_pack(root: Path) -> Path | None:
    """The pack beside the project's program, if there is one."""
    pack = program_folder(root) / "policy"
    return pack if (pack / PACK_FILE).is_file() else None


def start(
    pack: Path,
    *,
    project: str,
    stack: str,
    config: Given | None = None,
    modules: Path | None = None,
    region: str = "",
) -> PolicyRun:
    """Spawn the pack in `pack`. Returns at once; `judge` waits for it. Use as a context manager, or `close` it.

    `config` is what a policy config file of Pulumi holds: per policy (or `all`) a level, or a map of properties with
    an optional `enforcementLevel`. `modules` is where the pack finds its facts and settings before anywhere else. `region` is the
    stack's `gcp:region`, all that the pack reads of its configuration.
    """
    return PolicyRun(pack, project=project, stack=stack, config=config or {}, modules=modules, region=region)


class PolicyRun:
    """A running pack."""

    def __init__(
        self, pack: Path, *, project: str, stack: str, config: Given, modules: Path | None = None, region: str = ""
    ) -> None:
        self._pack = pack.resolve()
        self.config_file = config_file(stack)
        self.states: tuple[PolicyState, ...] = ()
        """Every policy as the configuration leaves it, known once the pack has judged."""
        self._config = config
        self._stack_config = {"gcp:region": region} if region else {}
        of_the_engine = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_CONFIG")}
        environment = of_the_engine | {
            "PULUMI_PROJECT": project,
            "PULUMI_STACK": stack,
            "PULUMI_ORGANIZATION": ORGANIZATION,
            "PULUMI_DRY_RUN": "true",
        }
        if modules is not None:
            # The environment's own search path leads to the checkout, which has modules of the same names. Nothing is compiled
            # into a folder that is about to be removed.
            environment |= {"PYTHONPATH": str(modules), "PYTHONDONTWRITEBYTECODE": "1"}
        # The address of an engine is asked for and never used by a pack.
        command = (sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:0", ".")
        self._process = children.spawn(command, cwd=self._pack, env=environment)
        self._port = _FirstLine(self._process.stdout)
        self._stderr = _Tail(self._process.stderr)

    def __enter__(self) -> PolicyRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        children.end(self._process)

    def judge(self, recording: Recording) -> tuple[Violation, ...]:
        """Every verdict on the recording, sorted.

        A rule that breaks is a mandatory violation of its own: what it had to say is lost. Raises `PolicyError` when
        the pack does not start, dies or refuses its configuration.
        """
        import grpc  # type: ignore[import-untyped]
        from pulumi.runtime.proto import analyzer_pb2_grpc

        from fleet.preview.policy_messages import PolicyMessages

        messages = PolicyMessages(recording)
        # Never through a proxy: the pack is a process of ours on this machine.
        direct = (("grpc.enable_http_proxy", 0),)
        with grpc.insecure_channel(f"127.0.0.1:{self._wait_for_port()}", options=direct) as channel:
            stub = analyzer_pb2_grpc.AnalyzerStub(channel)
            try:
                self._configure(stub, messages)
                inputs = self._ask_inputs(stub, messages, recording.resources)
                found = list(self._answers(self._ask_stack(stub, messages, recording, inputs)))
            except ValueError as error:
                self.close()
                raise PolicyError(f"the policy pack in {self._pack} cannot be queried: {error}") from error
            except grpc.RpcError as error:
                raise PolicyError(self._complaint(str(error.details()))) from error
        redactor = Redactor({*recording.plaintexts, *_secret_texts(recording)})
        clean = {replace(one, message=redactor.text(one.message)) for one in found}
        return tuple(sorted(clean, key=lambda one: (LEVELS.index(one.level) != 1, one.policy, one.urn, one.message)))

    def _configure(self, stub: Any, messages: PolicyMessages) -> None:
        from google.protobuf import empty_pb2  # type: ignore[import-untyped]

        info = stub.GetAnalyzerInfo(empty_pb2.Empty(), timeout=_ANSWER_SECONDS)
        stub.ConfigureStack(messages.configure_stack(self._stack_config), timeout=_ANSWER_SECONDS)
        self.states = states = messages.states(info, self._config, self.config_file)
        stub.Configure(messages.configure(states), timeout=_ANSWER_SECONDS)

    def _ask_inputs(self, stub: Any, messages: PolicyMessages, resources: Iterable[RecordedResource]) -> list[_Asked]:
        """Ask about each resource's inputs."""
        # Many at once: the pack's server has threads of its own, and waiting for each answer would add up. Not all: gRPC's
        # server cancels calls beyond what it takes at a time.
        room = threading.Semaphore(_ASKED_AT_ONCE)

        def ask(urn: str, request: Any) -> _Asked:
            room.acquire()
            answer = stub.Analyze.future(request, timeout=_ANSWER_SECONDS)
            answer.add_done_callback(lambda _: room.release())
            return urn, answer

        return [
            ask(resource.urn, messages.analyze(resource))
            for resource in resources
            if resource.type != STACK_REFERENCE_TYPE
        ]

    def _ask_stack(
        self, stub: Any, messages: PolicyMessages, recording: Recording, inputs: Sequence[_Asked]
    ) -> list[_Asked]:
        """Ask about the stack once the pack has all its inputs, which stack rules read where a first preview has no outputs."""
        for _, answer in inputs:
            answer.exception()  # Waits. `_answers` reports it.
        answer = stub.AnalyzeStack.future(messages.analyze_stack(), timeout=_ANSWER_SECONDS)
        stack_urn = next((resource.urn for resource in recording.resources if not resource.parent), "")
        return [*inputs, (stack_urn, answer)]

    def _answers(self, asked: Iterable[_Asked]) -> Iterator[Violation]:
        import grpc

        for urn, answer in asked:
            try:
                diagnostics: Iterable[Any] = answer.result().diagnostics
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNKNOWN:
                    raise
                reason = str(error.details()).removeprefix("Exception calling application: ")
                yield Violation(policy="a-rule-failed", level="mandatory", urn=urn, message=f"a rule failed: {reason}")
                continue
            for diagnostic in diagnostics:
                yield Violation(
                    policy=diagnostic.policyName,
                    level=LEVELS[diagnostic.enforcementLevel],
                    urn=diagnostic.urn or urn,
                    message=diagnostic.message,
                    description=diagnostic.description,
                    severity=SEVERITIES[diagnostic.severity],
                )

    def _wait_for_port(self) -> int:
        line = self._port.wait(_START_SECONDS)
        if line is None:
            raise PolicyError(self._complaint(f"it did not say its port within {_START_SECONDS:.0f} s"))
        if not re.fullmatch(r"\d+\s*", line):
            raise PolicyError(self._complaint(f"it said {line!r}" if line else "it ended before it could be asked"))
        return int(line)

    def _complaint(self, reason: str) -> str:
        self.close()
        said = self._stderr.text()
        return f"the policy pack in {self._pack} cannot be asked: {reason}" + (f"\n{said}" if said else "")


class _FirstLine:
    """Waits for a stream's first line and throws the rest away: what a rule prints must not fill the pipe."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._line = ""
        self._arrived = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(stream,), name="policy-stdout", daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes] | None) -> None:
        if stream is not None:
            with stream:
                self._line = stream.readline().decode(errors="replace")
                self._arrived.set()
                for _ in stream:
                    pass
        self._arrived.set()

    def wait(self, seconds: float) -> str | None:
        """The line, empty if the stream ended without one; None if nothing came in time."""
        return self._line if self._arrived.wait(seconds) else None


class _Tail:
    """Keeps the last lines of a stream."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT_STDERR_LINES)
        self._thread = threading.Thread(target=self._read, args=(stream,), name="policy-stderr", daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes] | None) -> None:
        if stream is not None:
            with stream:
                for line in stream:
                    self._lines.append(line.decode(errors="replace").rstrip())

    def text(self) -> str:
        """What was said last; call once the process has ended."""
        self._thread.join(timeout=1)
        return "\n".join(self._lines)


def _secret_texts(recording: Recording) -> Iterator[str]:
    for resource in recording.resources:
        for values in (resource.inputs, resource.outputs):
            yield from _texts(dict(values), secret=False)


def _texts(value: Value, *, secret: bool) -> Iterator[str]:
    if isinstance(value, Secret):
        yield from _texts(value.value, secret=True)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item, secret=secret)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, secret=secret)
    elif secret and isinstance(value, str):
        yield value
