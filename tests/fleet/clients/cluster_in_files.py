"""A cluster in files: a stand-in for kubectl that keeps objects, and what a test does with them."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.fleet.clients.programs import stand_in

KUBECTL = """
import json, os, pathlib, signal, sys, time
folder = pathlib.Path(__file__).parent
given = [word for word in sys.argv[1:] if word.startswith("--")]
words = [word for word in sys.argv[1:] if not word.startswith("--")]
options = dict(word[2:].partition("=")[::2] for word in given)
with (folder / "asked").open("a") as log:
    log.write(" ".join(words[:3]) + "\\n")
def trouble(said):
    for file in folder.glob("trouble-*"):
        if said.startswith(file.name.removeprefix("trouble-").replace("+", " ")):
            sys.exit(file.read_text())
trouble(" ".join(words))
def kind_of(word):
    return {"jobs": "job", "pods": "pod", "configmaps": "configmap", "events": "event"}.get(word, word)
def all_of(kind):
    return sorted((folder / "objects").glob(f"{kind}.*.json"))
def matches(found):
    labels = found["metadata"].get("labels", {})
    pairs = [pair.partition("=")[::2] for pair in options.get("selector", "").split(",") if pair]
    return all(labels.get(key) == value for key, value in pairs)
def keep(file, found):
    # Renamed when it is whole: the test reads at any time.
    part = file.with_suffix(".part")
    part.write_text(json.dumps(found))
    part.replace(file)
if words[0] == "create":
    made = json.load(sys.stdin)
    kind, name = made["kind"].lower(), made["metadata"]["name"]
    number, file = len(all_of(kind)), folder / "objects" / f"{kind}.{name}.json"
    if file.exists():
        sys.exit(f'Error from server (AlreadyExists): {kind} "{name}" already exists')
    made["metadata"] |= {"uid": f"{kind}-{number}-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    keep(file, made)
    if (folder / "interrupt").exists():
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(60)
    trouble(f"created {kind}")
    print(json.dumps(made))
elif words[0] == "get" and len(words) == 3:
    file = folder / "objects" / f"{kind_of(words[1])}.{words[2]}.json"
    if not file.exists():
        sys.exit(f'Error from server (NotFound): {words[1]} "{words[2]}" not found')
    print(file.read_text())
elif words[0] == "get":
    found = [json.loads(file.read_text()) for file in all_of(kind_of(words[1]))]
    print(json.dumps({"items": [one for one in found if matches(one)]}))
elif words[0] == "patch":
    file = folder / "objects" / f"{kind_of(words[1])}.{words[2]}.json"
    found = json.loads(file.read_text())
    found["spec"] |= json.loads(options["patch"])["spec"]
    keep(file, found)
    print("patched")
elif words[0] == "delete":
    for file in all_of(kind_of(words[1])):
        found = json.loads(file.read_text())
        if found["metadata"]["name"] == words[2] if len(words) == 3 else matches(found):
            file.unlink()
elif words[0] == "logs":
    print("the last line")
"""


class ClusterInFiles:
    """The stand-in `kubectl` lies in its folder."""

    def __init__(self, folder: Path) -> None:
        self.cluster = folder
        (folder / "objects").mkdir(parents=True)
        self.program = stand_in(folder, "kubectl", KUBECTL)
        # Without the environment's packages it starts three times as fast.
        self.program.write_text(self.program.read_text().replace(sys.executable, f"{sys.executable} -IS", 1))

    def trouble(self, words: str, says: str) -> Path:
        """What kubectl fails with for a command that begins so, until the file is gone; `created KIND`: after it has made one."""
        file = self.cluster / f"trouble-{words.replace(' ', '+')}"
        file.write_text(says)
        return file

    def asked(self) -> list[str]:
        """What kubectl was asked."""
        file = self.cluster / "asked"
        return file.read_text().splitlines() if file.exists() else []

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """Objects of the cluster."""
        return [json.loads(file.read_text()) for file in sorted((self.cluster / "objects").glob(f"{kind}.*.json"))]

    def keep(self, kind: str, found: dict[str, Any]) -> None:
        """Store an object."""
        file = self.cluster / "objects" / f"{kind}.{found['metadata']['name']}.json"
        part = file.with_suffix(f".{kind}-of-the-test")
        part.write_text(json.dumps(found))
        part.replace(file)

    def end_jobs(self, condition: str = "Complete") -> None:
        """All Jobs end."""
        for job in self.objects("job"):
            job["status"] = {"conditions": [{"type": condition, "status": "True", "reason": "R", "message": "m"}]}
            job["status"]["conditions"][0]["lastTransitionTime"] = datetime.now(UTC).isoformat()
            self.keep("job", job)

    def job(self) -> dict[str, Any]:
        """The only Job."""
        (job,) = self.objects("job")
        return job
