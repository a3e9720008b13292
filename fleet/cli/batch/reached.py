"""What commands share that reach a batch of a running stack."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fleet.cli.exits import CommandError
from fleet.cli.options import OneStack
from fleet.doctor.packages import require_bucket_packages

if TYPE_CHECKING:
    from fleet.batch.stored import StoredBatch, Where
    from fleet.clients.google_api import UserCredentials
    from fleet.clients.stack_outputs import StackOutputs
    from fleet.clients.storage import Bucket
    from settings.stack import Settings

DEFAULT_FOLDER: Final = Path("out") / "batches"
"""Holds a folder for every batch."""
Id = Annotated[str | None, typer.Argument(metavar="ID", help="The batch. Default: the stack's only one.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="DIR", file_okay=False, help="Folder for results. Default: out/batches/ID."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A stack with batches, and its bucket."""

    settings: Settings
    outputs: StackOutputs
    bucket: Bucket
    login: UserCredentials
    where: Where
    """Of further commands."""

    @property
    def stack(self) -> str:
        """The stack's name."""
        return self.settings.stack

    def chosen(self, id_: str | None) -> StoredBatch:
        """A batch of the stack. Raises UserError and LiveError."""
        from fleet.batch.stored import choose

        return choose(self.bucket, self.where, id_)


def reach(of: OneStack, outputs: Path | None) -> Reached:
    """The stack and its bucket. Raises UserError if the stack has no batches, and LiveError."""
    require_bucket_packages()
    from fleet.batch.stored import Where
    from fleet.clients import stack_outputs
    from fleet.clients.google_api import UserCredentials
    from fleet.clients.storage import Bucket
    from settings.load import accept
    from settings.stack_file import read

    folder, name = of.find()
    file = read(folder, name)
    settings = accept(name, file.config, file.unopened)
    if not settings.batch.enabled:
        raise CommandError(
            f"batch.enabled is false in {file.path.name}: the stack has no bucket, account or network access for a batch. Write "
            f"`vllm-fleet:batch: {{enabled: true}}` there, run `pulumi up --stack {name}`, then run again"
        )
    given = stack_outputs.read(name, folder, outputs)
    if given.batch_bucket is None:
        raise CommandError(
            f"stack {name} has no output batchBucket: it was not updated since batch.enabled was set; run: pulumi up --stack {name}"
        )
    login = UserCredentials()
    repeated = {"--outputs": outputs, "--root": of.root}
    options = "".join(f" {key} {shlex.quote(str(value))}" for key, value in repeated.items() if value is not None)
    bucket = Bucket(given.batch_bucket, login)
    return Reached(settings=settings, outputs=given, bucket=bucket, login=login, where=Where(name, options))
