"""The settings of a launch: the stack file's with its options, compared with the running stack."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from facts import strict_json
from fleet.bench.errors import BenchmarkError
from fleet.jobs import session

if TYPE_CHECKING:
    from fleet.clients.stack_outputs import StackOutputs
    from settings.stack import Settings

_KEY: Final = "vllm-fleet:benchmark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Options that override the stack file; None: the file's value."""

    workload: Annotated[
        str | None, typer.Option("--workload", "-w", metavar="NAME", help="Instead of benchmark.workload.")
    ] = None
    concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N]",
            help="Requests in flight per replica, one load after another, instead of benchmark.concurrency.",
        ),
    ] = None
    repeats: Annotated[int | None, typer.Option(metavar="N", help="Instead of benchmark.repeats.")] = None
    prompts_per_client: Annotated[
        int | None, typer.Option(metavar="N", help="Instead of benchmark.promptsPerClient.")
    ] = None

    def loads(self) -> list[int] | None:
        """`concurrency` as numbers. Raises BenchmarkError."""
        if self.concurrency is None:
            return None
        try:
            return [int(part) for part in self.concurrency.split(",")]
        except ValueError:
            raise BenchmarkError(
                f"--concurrency {self.concurrency}: must be whole numbers with commas, for example 500,1000,2000"
            ) from None


def settings_for(root: Path, stack: str, changes: Changes) -> Settings:
    """The stack's settings with these changes, checked like the stack file.

    Raises SettingsError, and BenchmarkError where the stack has no benchmark.
    """
    from settings.load import accept
    from settings.stack_file import read

    file = read(root, stack)
    config = dict(file.config)
    section = _section(config.get(_KEY, "{}"))
    if section is not None:
        config[_KEY] = json.dumps(_changed(changes, section), separators=(",", ":"))
    settings = accept(stack, config, file.unopened)
    if not settings.benchmark.enabled:
        raise BenchmarkError(
            f"benchmark.enabled is false in {file.path.name}: benchmark pods have no account, network policies or access to the "
            f"bucket. Write `{_KEY}: {{enabled: true, runOnUpdate: false}}` there, run `pulumi up --stack {stack}`, "
            "then run again"
        )
    return settings


def require_the_same_stack(settings: Settings, outputs: StackOutputs) -> None:
    """The running stack matches the stack file in what identifies a figure. Raises LiveError."""
    session.require_the_same_stack(
        settings, outputs, "The figures would be recorded for a configuration that did not run"
    )


def _section(text: str) -> dict[str, Any] | None:
    """The section; None where it is not one, which the settings' check reports."""
    try:
        found = strict_json.loads(text or "{}")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _changed(changes: Changes, section: dict[str, Any]) -> dict[str, Any]:
    from settings.checks.unused import FILE_WORKLOADS

    written = dict(section)
    if changes.workload is not None:
        written["workload"] = changes.workload
        # The others are refused with one.
        if changes.workload not in FILE_WORKLOADS:
            written.pop("dataset", None)
    if (loads := changes.loads()) is not None:
        written["concurrency"] = loads
    if changes.repeats is not None:
        written["repeats"] = changes.repeats
    if changes.prompts_per_client is not None:
        written["promptsPerClient"] = changes.prompts_per_client
    return written
