"""What stands for kubectl: answers from files, and forwards ports for real. Standard library; started as a program of its own.

The folder FAKE_CLUSTER holds `KIND.json` (a list), `KIND-NAME.json` (an object), `forwards.json` (pod -> host:port)
and may hold `KIND SELECTOR.json` (a list by labels) and `trouble-KIND.txt` (what goes to stderr instead). Its calls are written to
`calls.txt`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path


def main() -> int:
    folder = Path(os.environ["FAKE_CLUSTER"])
    with (folder / "calls.txt").open("a") as calls:
        calls.write(" ".join(sys.argv[1:]) + "\n")
    words = [one for one in sys.argv[1:] if not one.startswith("--")]
    verb, rest = words[0], words[1:]
    if (folder / "hang").exists():
        time.sleep(600)
    if verb == "port-forward":
        return forward(folder, rest[0].removeprefix("pod/"))
    kind = rest[0].partition(".")[0]
    trouble = folder / f"trouble-{kind}.txt"
    if trouble.exists():
        sys.stderr.write(trouble.read_text())
        return 1
    file = folder / (f"{kind}-{rest[1]}.json" if len(rest) > 1 else f"{kind}.json")
    selected = next((one.partition("=")[2] for one in sys.argv if one.startswith("--selector=")), "")
    if (folder / f"{kind} {selected}.json").exists():
        file = folder / f"{kind} {selected}.json"
    if not file.exists():
        sys.stderr.write(f'Error from server (NotFound): {rest[0]} "{rest[-1]}" not found\n')
        return 1
    sys.stdout.write(file.read_text())
    return 0


def forward(folder: Path, pod: str) -> int:
    targets = json.loads((folder / "forwards.json").read_text())
    if pod not in targets:
        sys.stderr.write("error: unable to forward port because pod is not running. Current status=Pending\n")
        return 1
    host, _, port = targets[pod].partition(":")
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    sys.stdout.write(f"Forwarding from 127.0.0.1:{listening.getsockname()[1]} -> 8000\n")
    sys.stdout.flush()
    while True:
        near, _ = listening.accept()
        far = socket.create_connection((host, int(port)))
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=pump, args=(one, other), kwargs={"to_us": other is near}, daemon=True).start()


def pump(source: socket.socket, sink: socket.socket, *, to_us: bool) -> None:
    try:
        while data := source.recv(65536):
            try:
                sink.sendall(data)
            except OSError:
                if to_us:
                    # As the real one: a connection that is left half read ends the tunnel of all others.
                    sys.stderr.write("error: lost connection to pod\n")
                    sys.stderr.flush()
                    os._exit(1)
                raise
        if not to_us:
            # The way to the pod: it does not know at once that nobody listens.
            time.sleep(0.1)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for one in (source, sink):
            one.close()


if __name__ == "__main__":
    sys.exit(main())
