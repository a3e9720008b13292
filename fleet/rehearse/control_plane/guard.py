"""A tiny parent for one program: whatever becomes of the process that asked for it, the program does not outlive it.

Run as a script, `guard.py LIFELINE_FD ORPHANED_FOLDER PROGRAM ARGUMENT...`; imports nothing of this project and starts in some
ten milliseconds. The lifeline is a pipe whose other end the rehearsal holds: a byte on it means stop, its end means that the
rehearsal is gone, by SIGKILL even. A signal on parent death alone would not do: Linux sends it when the *thread* that started a
program ends, and other systems do not have it.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
from types import FrameType

LOOK_SECONDS = 2.0
"""How often a guard looks whether its parent changed, should a fork of the rehearsal hold the lifeline open. Assumed."""
_PR_SET_PDEATHSIG = 1
"""Source: Linux, include/uapi/linux/prctl.h."""


def main(arguments: list[str]) -> int:
    """Run the program until it ends or the lifeline does; its exit code, or 128 and the signal that ended it."""
    lifeline, orphaned_folder, command = int(arguments[0]), arguments[1], arguments[2:]
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
    # Ctrl-C in a terminal goes to every process in the foreground. The rehearsal decides what ends, and in which order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    program = _start(command)
    while True:
        status = _ended(program)
        if status is not None:
            _kill_group(program)
            return status
        ready, _, _ = select.select([lifeline, woken], [], [], LOOK_SECONDS)
        told = os.read(lifeline, 1) if lifeline in ready else None
        orphaned = told == b"" or os.getppid() != parent
        if told or orphaned or asked_to_end:
            _kill_group(program)
            _, status = os.waitpid(program, 0)
            if orphaned and orphaned_folder:
                shutil.rmtree(orphaned_folder, ignore_errors=True)
            return _code(status)
        if woken in ready:
            os.read(woken, 512)


def _start(command: list[str]) -> int:
    guard = os.getpid()
    program = os.fork()
    if program:
        with contextlib.suppress(OSError):  # both sides say it, whoever is first
            os.setpgid(program, program)
        return program
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if sys.platform == "linux":
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(128 + signal.SIGKILL)
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
