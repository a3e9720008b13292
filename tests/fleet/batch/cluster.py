"""A laptop with a stack whose batches run on a cluster in files: `kubectl` is a stand-in, the bucket a real HTTP server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from fleet.batch.stored import PARTS, SHARDS
from tests.fleet.batch import made
from tests.fleet.cli.command import fleet
from tests.fleet.clients.cluster_in_files import ClusterInFiles
from tests.fleet.clients.fake_google import FakeGoogle, fake_google
from tests.fleet.clients.up import up
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


class Place(ClusterInFiles):
    """Where `fleet batch` is run."""

    def __init__(self, folder: Path, google: FakeGoogle, stack: str) -> None:
        super().__init__(folder / "cluster")
        self.folder, self.google, self.root = folder, google, folder / "project"
        made.tokenizer(folder)
        self.environment = up(folder, google, self.program, stack, batchBucket="results")
        for kind, name in (("namespace", NAMESPACE), ("serviceaccount", "batch")):
            self.keep(kind, {"metadata": {"name": name}})

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
    with fake_google(overwritable=lambda _: True) as google:
        yield Place(folder, google, stack)
