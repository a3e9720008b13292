"""Records a Pulumi program offline: runs it unmodified against a monitor and an engine of our own."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import inspect
import os
import re
import runpy
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pulumi.runtime import config as pulumi_config

from fleet import program_folder
from fleet.clients.stopping import Stopped
from fleet.preview.record.monitor import RecordingEngine, RecordingMonitor, RunContext, stack_exports
from fleet.preview.record.recording import (
    ORGANIZATION,
    Diagnostic,
    Mode,
    ProgramError,
    RecordedResource,
    Recording,
    StackOutputs,
    in_dependency_order,
)
from fleet.preview.record.values import UNKNOWN, Secret

__all__ = [
    "UNKNOWN",
    "Diagnostic",
    "Mode",
    "ProgramError",
    "RecordedResource",
    "Recording",
    "Secret",
    "StackOutputs",
    "record",
]

_T = TypeVar("_T")
_MOST_TURNS = 10_000
"""Of the loop, before the SDK waits in its own way; a recording takes some hundreds."""
_MOST_FRAMES = 16
"""Of a stack: twice those between a registration and the program's line that made the resource."""
_SPEAK_FOR_THEMSELVES = (Exception, RuntimeError, ValueError)
"""Built-in errors whose text is a sentence; that of others, such as KeyError, means nothing without their name."""


def record(
    root: Path,
    *,
    project: str,
    stack: str,
    config: Mapping[str, str],
    secret_keys: Collection[str] = (),
    mode: Mode,
    stack_outputs: Callable[[str], StackOutputs] | None = None,
    program: Callable[[], None] | None = None,
    is_up: bool = False,
) -> Recording:
    """Run the program of `root` (its `__main__.py`, or `program`) for one stack and return what it registered.

    Every value of `config` is text, keyed `project:key`, structured values as JSON. `is_up` says that the stack is up, though nothing
    of it is known: its providers are configured. Raises `ProgramError` when the program fails or asks for what no offline run can
    give. May be called from any thread, one recording at a time per process: the working folder, `sys.path` and the module
    `__main__` belong to the process.
    """
    root = root.resolve()

    def run() -> Recording:
        context = RunContext(
            root=root,
            project=project,
            stack=stack,
            mode=mode,
            config=config,
            stack_outputs=stack_outputs,
            is_up=is_up,
        )
        monitor = _run_program(context, program, secret_keys)
        return _finish(monitor, {key: config[key] for key in secret_keys if key in config})

    return _in_own_context(root, run)


class _Turns:
    """One recording at a time; a recording made to answer another one (a StackReference) shares that one's turn."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owner: object | None = None
        self._depth = 0

    @contextlib.contextmanager
    def taken_by(self, owner: object) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._owner is None or self._owner is owner)
            self._owner, self._depth = owner, self._depth + 1
        try:
            yield
        finally:
            with self._changed:
                self._depth -= 1
                if self._depth == 0:
                    self._owner = None
                    self._changed.notify_all()


_TURNS = _Turns()
_OUTERMOST: contextvars.ContextVar[object | None] = contextvars.ContextVar("outermost_recording", default=None)


def _in_own_context(root: Path, run: Callable[[], _T]) -> _T:
    """Call `run` with fresh context variables, in `root`, on a thread whose event loop is idle."""
    owner = _OUTERMOST.get() or object()

    def inside() -> _T:
        _OUTERMOST.set(owner)
        with _TURNS.taken_by(owner), contextlib.chdir(root), _importable(root), _short_stacks():
            return run()

    context = contextvars.Context()
    if _loop_is_running():
        return _on_new_thread(lambda: context.run(inside))
    return context.run(inside)


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _on_new_thread(call: Callable[[], _T]) -> _T:
    result: list[_T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            result.append(call())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, name="nested-recording")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


@contextlib.contextmanager
def _importable(root: Path) -> Iterator[None]:
    """Let the program import its own modules, as if Python had been started with `__main__.py`."""
    entry = str(root)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(entry)


@contextlib.contextmanager
def _short_stacks() -> Iterator[None]:
    """Let `traceback` extract the innermost frames only, while the program runs.

    The SDK extracts and sends the whole stack with every resource: a tenth of a recording.
    Source: pulumi 3.272.0, runtime/resource.py (register_resource).
    """
    before = getattr(sys, "tracebacklimit", None)
    sys.tracebacklimit = _MOST_FRAMES
    try:
        yield
    finally:
        if before is None:
            del sys.tracebacklimit
        else:
            sys.tracebacklimit = before


class _InlineLoop(asyncio.SelectorEventLoop):
    """An event loop that answers the SDK's calls immediately: our monitor never blocks, so threads would only cost time."""

    scheduled = 0
    """Calls of `call_soon` so far."""

    def call_soon(self, *args: Any, **kwargs: Any) -> asyncio.Handle:  # type: ignore[override]
        """Schedule a callback, and count it."""
        self.scheduled += 1
        return super().call_soon(*args, **kwargs)

    def run_in_executor(
        self,
        executor: object,  # noqa: ARG002 - the signature is asyncio's
        func: Callable[..., _T],
        *args: object,
    ) -> asyncio.Future[_T]:
        """Call `func` now; `executor` is not used."""
        future: asyncio.Future[_T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def idle(self) -> None:
        """Return once nothing but this coroutine is left to run."""
        for _ in range(_MOST_TURNS):
            before = self.scheduled
            await asyncio.sleep(0)
            if self.scheduled - before <= 1:
                break


def _run_program(
    context: RunContext, program: Callable[[], None] | None, secret_keys: Collection[str]
) -> RecordingMonitor:
    from pulumi.runtime import settings, stack

    monitor = RecordingMonitor(context)
    pulumi_config.set_all_config(dict(context.config), list(secret_keys))
    settings.reset_options(
        project=context.project,
        stack=context.stack,
        monitor_address=monitor,  # type: ignore[arg-type]
        engine_address=RecordingEngine(context, monitor.diagnostics),  # type: ignore[arg-type]
        preview=context.mode == "preview",
        organization=ORGANIZATION,
        root_directory=str(context.root),
    )
    body = program or _main_program(context.root)
    with _no_collections(), _event_loop() as loop, _no_configuration_from_outside():

        async def run_until_idle() -> None:
            # The SDK waits for the first of all pending Outputs, then for the first of the rest: quadratic, a fifth of a
            # recording. Source: pulumi 3.272.0, runtime/stack.py (wait_for_rpcs). Here most are done before it begins.
            body()
            await loop.idle()

        try:
            loop.run_until_complete(stack.run_in_stack(run_until_idle))
        except Stopped:
            raise
        except (Exception, SystemExit) as error:
            _settle(loop)
            _close_unawaited_outputs()
            raise _as_program_error(error, context.root) from error
    return monitor


@contextlib.contextmanager
def _no_configuration_from_outside() -> Iterator[None]:
    """Without the variables in which an engine hands a program its configuration: the stack file is all there is.

    Source: pulumi 3.272.0, runtime/config.py (get_config). Of the passphrase, which begins alike, a program needs nothing.
    """
    kept = {name: os.environ.pop(name) for name in tuple(os.environ) if name.startswith("PULUMI_CONFIG")}
    try:
        yield
    finally:
        os.environ.update(kept)


def _main_program(root: Path) -> Callable[[], None]:
    main = program_folder(root) / "__main__.py"

    def body() -> None:
        runpy.run_path(str(main), run_name="__main__")

    return body


@contextlib.contextmanager
def _event_loop() -> Iterator[_InlineLoop]:
    """A loop of our own that stays silent about tasks left behind by a program that failed."""
    loop = _InlineLoop()
    loop.set_exception_handler(lambda *_: None)
    asyncio.set_event_loop(loop)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine 'Output.", RuntimeWarning)
            yield loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Without garbage collections: whatever the program has made is then in the youngest generation."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _settle(loop: asyncio.AbstractEventLoop) -> None:
    """End what a failed program left behind; Python would complain about it on stderr otherwise."""
    left = asyncio.all_tasks(loop)
    if not left:
        return
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


def _close_unawaited_outputs() -> None:
    """Close the coroutines of Outputs that will not be awaited.

    The SDK awaits the parts of an Output one after the other, and forgets the rest when the first of them fails. Those
    that the error's traceback keeps alive would be complained about long after this run.
    """
    for object_ in gc.get_objects(generation=0):
        if (
            type(object_) is types.CoroutineType
            and object_.__qualname__.startswith("Output.")
            and _is_unstarted(object_)
        ):
            object_.close()


def _is_unstarted(one: types.CoroutineType[Any, Any, Any]) -> bool:
    return inspect.getcoroutinestate(one) == inspect.CORO_CREATED


def _as_program_error(error: BaseException, root: Path) -> ProgramError:
    if isinstance(error, ProgramError):
        return error
    if isinstance(error, SystemExit):
        return ProgramError(f"the program ended itself with exit code {error.code}{_where(error, root)}", error)
    if "RunError" in {base.__name__ for base in type(error).__mro__} and "\n  allowed: " in str(error):
        # Findings with their own lines. Of a component's arguments the fix is in the program, else in the stack file.
        place = _where(error, root) if isinstance(error, ValueError) else ""
        return ProgramError(f"{place.strip(' ()')}\n{error}".strip(), error)
    text = " ".join(str(error).split())
    if "Calling __str__ on an Output" in text:
        text = "an Output is used as text, by str() or an f-string: use pulumi.Output.format, Output.concat or apply"
    elif unsupported := re.match(r"The Pulumi CLI does not support (?:the )?(.+?)\. Please", text):
        text = f"the program uses {unsupported[1]}, which an offline preview cannot honour and will not drop silently"
    elif not text or not (type(error).__module__ != "builtins" or type(error) in _SPEAK_FOR_THEMSELVES):
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    return ProgramError(f"{text}{_where(error, root)}", error)


def _where(error: BaseException, root: Path) -> str:
    """The last line of the program's own code on the way to the error."""
    frames = traceback.extract_tb(error.__traceback__, limit=sys.maxsize)
    for frame in reversed(frames):
        path = Path(frame.filename)
        own = path.is_relative_to(root) and "site-packages" not in path.parts and path.parent != Path(__file__).parent
        if own:
            return f" ({path.relative_to(root)}:{frame.lineno})"
    return ""


def _finish(monitor: RecordingMonitor, secret_config: Mapping[str, str]) -> Recording:
    for resource in monitor.resources.values():
        if resource.deleted_with and resource.deleted_with not in monitor.resources:
            raise ProgramError(
                f"{resource.urn} is deleted with {resource.deleted_with}, which the program does not create"
            )
    context = monitor.context
    return Recording(
        project=context.project,
        stack=context.stack,
        mode=context.mode,
        resources=in_dependency_order(
            one if one.custom else replace(one, outputs=monitor.announced.get(one.urn, {}))
            for one in monitor.resources.values()
        ),
        outputs=stack_exports(monitor),
        diagnostics=tuple(sorted(monitor.diagnostics, key=lambda one: (one.urn, one.severity, one.message))),
        secrets=frozenset(value for value in secret_config.values() if value),
    )
