"""Parent process of one program that ends the program with the rehearsal.

Script: `guard.py LIFELINE_FD ORPHANED_FOLDER PROGRAM ARGUMENT...`. It imports nothing of this project and starts in about ten
milliseconds. The lifeline is a pipe from the rehearsal: "i" means interrupt the program as Ctrl-C does; "k", "t" and "u" send it
SIGKILL, SIGTERM and SIGUSR1; another byte means stop; its end means that the rehearsal has ended, even by SIGKILL. PR_SET_PDEATHSIG is
not enough: Linux sends it when the starting *thread* ends, and other systems do not have it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import sys
from types import FrameType

LOOK_SECONDS = 2.0
"""Interval of checks for a changed parent, in case a fork of the rehearsal keeps the lifeline open. Assumed."""
SIGNALS = {b"i": signal.SIGINT, b"k": signal.SIGKILL, b"t": signal.SIGTERM, b"u": signal.SIGUSR1}
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
"""Source of both: Linux, include/uapi/linux/prctl.h."""


def main(arguments: list[str]) -> int:
    """Run the program until it or the lifeline ends; returns its exit code, or 128 plus the signal."""
    lifeline, orphaned_folder, command = int(arguments[0]), arguments[1], arguments[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    parent = os.getppid()
    os.set_inheritable(lifeline, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    asked_to_end = False

    def end(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked_to_end
        asked_to_end = True

    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    # Ctrl-C reaches every foreground process; the rehearsal decides the order of shutdown.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    program = _start(command)
    while True:
        status = _ended(program)
        if status is not None:
            _kill_group(program)
            _kill_orphans()
            return status
        ready, _, _ = select.select([lifeline, woken], [], [], LOOK_SECONDS)
        told = os.read(lifeline, 1) if lifeline in ready else None
        if told in SIGNALS:
            os.kill(program, SIGNALS[told])  # Not reaped yet: the number cannot be another program's.
            continue
        orphaned = told == b"" or os.getppid() != parent
        if told or orphaned or asked_to_end:
            _kill_group(program)
            _, status = os.waitpid(program, 0)
            _kill_orphans()
            if orphaned and orphaned_folder:
                shutil.rmtree(orphaned_folder, ignore_errors=True)
            return _code(status)
        if woken in ready:
            os.read(woken, 512)


def _start(command: list[str]) -> int:
    guard = os.getpid()
    program = os.fork()
    if program:
        with contextlib.suppress(OSError):  # Set by both processes, to avoid a race.
            os.setpgid(program, program)
        return program
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(128 + signal.SIGKILL)
        os.execv(command[0], command)  # noqa: S606 - no shell
    except BaseException as error:
        os.write(2, f"{command[0]} cannot be started: {error}\n".encode())
    os._exit(127)


def _ended(program: int) -> int | None:
    pid, status = os.waitpid(program, os.WNOHANG)
    return _code(status) if pid else None


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _kill_group(program: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(program, signal.SIGKILL)


def _kill_orphans() -> None:
    """End what the program has started in groups of their own, such as the engine's providers, which outlive a killed engine. On Linux."""
    while True:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123 - pathlib takes a while
                orphans = [int(word) for word in file.read().split()]
        except OSError:
            return
        if not orphans:
            return
        for orphan in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
