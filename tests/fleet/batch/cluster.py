"""A laptop with a stack whose batches run on a cluster in files: `kubectl` is a stand-in, the bucket a real HTTP server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from fleet.batch.stored import PARTS, SHARDS
from tests.fleet.batch import made
from tests.fleet.cli.command import fleet, project
from tests.fleet.clients.fake_google import TOKEN, FakeGoogle, fake_google
from tests.fleet.clients.programs import in_front, stand_in
from tests.fleet.clients.test_stack_outputs import outputs
from workloads.batch.job import BATCH_LABEL

NAMESPACE = "vllm-try"
STACK = """\
config:
  gcp:project: fleet-tests
  gcp:region: europe-west4
  vllm-fleet:zones: ["europe-west4-b"]
  vllm-fleet:capacity: {mode: spot}
  vllm-fleet:server: {profile: serve-chat, scaling: {mode: batch, max: 4}}
  vllm-fleet:batch: {enabled: true, defaults: {maxTokens: 100}}
"""
KUBECTL = """
import json, os, pathlib, sys
folder = pathlib.Path(os.environ["CLUSTER"])
given = [word for word in sys.argv[1:] if word.startswith("--")]
words = [word for word in sys.argv[1:] if not word.startswith("--")]
options = dict(word[2:].partition("=")[::2] for word in given)
with (folder / "asked").open("a") as log:
    log.write(" ".join(words[:3]) + "\\n")
for file in folder.glob("trouble-*"):
    if " ".join(words).startswith(file.name.removeprefix("trouble-").replace("+", " ")):
        sys.exit(file.read_text())
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


@dataclass
class Place:
    """Where `fleet batch` is run."""

    folder: Path
    google: FakeGoogle
    environment: dict[str, str]

    @property
    def root(self) -> Path:
        """The project."""
        return self.folder / "project"

    @property
    def cluster(self) -> Path:
        """The stand-in's folder."""
        return self.folder / "cluster"

    def batch(self, *arguments: str) -> CompletedProcess[str]:
        """`fleet batch ARGUMENTS` on the stack `try`."""
        return fleet("batch", *arguments, *self.where.split(), cwd=self.folder, **self.environment)

    @property
    def where(self) -> str:
        """Options that every command has, and every command that is printed."""
        return f"--stack try --outputs {self.folder / 'outputs.json'} --root {self.root}"

    def run(self, *arguments: str) -> CompletedProcess[str]:
        """`fleet batch run` without questions."""
        return self.batch("run", *arguments, "--yes", "--tokenizer", str(self.folder / "tokenizer.json"))

    def trouble(self, words: str, says: str) -> None:
        """What kubectl fails with for a command that begins so."""
        (self.cluster / f"trouble-{words.replace(' ', '+')}").write_text(says)

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

    def id(self) -> str:
        """Of the batch whose Job is the only one."""
        return str(self.job()["metadata"]["labels"][BATCH_LABEL])

    def stored(self, id_: str, name: str) -> Any:
        """An object of a batch, parsed."""
        return json.loads(self.google.contents[f"batches/{id_}/{name}"])

    def put(self, id_: str, name: str, content: Any) -> None:
        """Store an object of a batch."""
        self.google.put(
            f"batches/{id_}/{name}", content if isinstance(content, bytes) else json.dumps(content).encode()
        )

    def documents(self, id_: str) -> list[dict[str, Any]]:
        """All documents, in the order of their shards."""
        shards = {
            name: text for name, text in self.google.contents.items() if name.startswith(f"batches/{id_}/{SHARDS}")
        }
        return [json.loads(line) for name in sorted(shards) for line in shards[name].splitlines()]

    def finish(self, id_: str, but: Callable[[str], bool] = lambda _: False, *, only: int | None = None) -> None:
        """What pods leave: a part for each shard, or for the first `only`. `but`: documents that fail, by custom_id."""
        names = sorted(name for name in self.google.contents if name.startswith(f"batches/{id_}/{SHARDS}"))
        for name in names[:only]:
            lines = [made.result(id_, json.loads(line), but) for line in self.google.contents[name].splitlines()]
            self.google.put(name.replace(f"/{SHARDS}", f"/{PARTS}"), b"".join(lines))
        if only is None:
            # The last shard has none.
            self.put(id_, f"{PARTS}{len(names):05d}.jsonl", b"")
            self.end_jobs()


@contextmanager
def place(folder: Path, stack: str = STACK) -> Iterator[Place]:
    """A project with the stack `try`, which is up."""
    project(folder / "project", **{"try": stack})
    made.tokenizer(folder)
    (folder / "tmp").mkdir()
    (folder / "cluster" / "objects").mkdir(parents=True)
    program = stand_in(folder / "bin", "kubectl", KUBECTL)
    # Without the environment's packages it starts three times as fast.
    program.write_text(program.read_text().replace(sys.executable, f"{sys.executable} -IS", 1))
    given = outputs(
        kubeconfig=json.dumps({"apiVersion": "v1", "kind": "Config"}),
        profile="serve-chat",
        modelRevision=_revision(),
        project="fleet-tests",
        batchBucket="results",
    )
    (folder / "outputs.json").write_text(json.dumps(given), encoding="utf-8")
    with fake_google(overwritable=lambda _: True) as google:
        made_ = Place(
            folder,
            google,
            {
                "PATH": in_front(folder / "bin"),
                "CLUSTER": str(folder / "cluster"),
                "GOOGLE_OAUTH_ACCESS_TOKEN": TOKEN,
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": google.url,
                "TMPDIR": str(folder / "tmp"),
            },
        )
        for kind, name in (("namespace", NAMESPACE), ("serviceaccount", "batch")):
            made_.keep(kind, {"metadata": {"name": name}})
        yield made_


def _revision() -> str:
    from settings.profiles import profile

    model = profile("serve-chat").model
    assert model is not None
    return model.revision
