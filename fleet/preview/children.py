"""Child processes that end with this one."""

from __future__ import annotations

import atexit
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_GRACE_SECONDS: Final = 2.0
_ALIVE: set[subprocess.Popen[bytes]] = set()
# Asks Linux to kill the child when its parent dies, even by SIGKILL, and becomes the real command. 1 is PR_SET_PDEATHSIG.
_TIED_TO_PARENT: Final = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); os.execv(sys.argv[1], sys.argv[1:])"
)


def spawn(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a command with piped output, in a session of its own so that Ctrl-C reaches only us."""
    # The kernel's tie is to the thread that spawned, so only the main thread can use it.
    if sys.platform == "linux" and threading.current_thread() is threading.main_thread():
        command = (sys.executable, "-S", "-c", _TIED_TO_PARENT, *command)
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    _ALIVE.add(process)
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop a process: politely, then not. Does nothing for one that has ended."""
    _ALIVE.discard(process)
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def end_all() -> None:
    """Stop whatever is still running."""
    for process in tuple(_ALIVE):
        end(process)


atexit.register(end_all)
