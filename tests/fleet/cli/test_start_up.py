"""What a command loads before it answers: the difference between a prompt that reacts and one that hesitates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from fleet.cli.app import app_with, command_line
from tests.fleet.cli.command import ROOT, fleet

_REPORT = """
import contextlib, io, json, sys
sys.argv = {argv!r}
from fleet.cli.main import main
out = io.StringIO()
with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
    main()
heavy = ("pydantic", "rich", "yaml", "pulumi", "grpc", "settings.stack", "tokenizers", "numpy",
         "facts.machines", "facts.models", "fleet.batch", "fleet.plan.planning", "fleet.plan.question", "fleet.preview", "typer")
print(json.dumps(sorted(name for name in heavy if name in sys.modules)))
"""


def loaded_by(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _REPORT.format(argv=["fleet", *arguments])],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded: list[str] = json.loads(done.stdout.splitlines()[-1])
    return loaded


_AT_THE_START_OF_THE_PACK = """
import json, os, subprocess, sys
def started(process, command, *rest, **options):
    print(json.dumps(sorted({"grpc", "pulumi"} & set(sys.modules))), flush=True)
    os._exit(0)
subprocess.Popen.__init__ = started
sys.argv = ["fleet", "preview", "--stack", "spot"]
from fleet.cli.main import main
main()
"""


def test_the_policy_pack_starts_while_the_sdk_loads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AT_THE_START_OF_THE_PACK],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [(("--version",), []), ((), ["typer"]), (("preview", "--help"), ["pydantic", "typer"])],  # which converts options
)
def test_what_needs_no_answer_loads_next_to_nothing(arguments: tuple[str, ...], loaded: list[str]) -> None:
    assert loaded_by(*arguments) == loaded


def test_a_batch_is_sized_and_started_without_pulumi() -> None:
    said = "import sys, fleet.batch.launch, fleet.batch.sizing; print({'grpc', 'pulumi'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_command_that_is_built_alone_is_the_one_that_is_built_with_all() -> None:
    every: Any = get_command(app_with())
    for name, whole in every.commands.items():
        alone: Any = command_line(name)
        assert list(alone.commands) == [name]
        assert _options(alone.commands[name]) == _options(whole)
    for not_a_command in ("", "--help", "previe", "_exit_with"):
        assert list(command_line(not_a_command).commands) == list(every.commands)  # type: ignore[attr-defined]


def _options(command: Any) -> Any:
    """Of a command or, by name, of those of a group."""
    below = getattr(command, "commands", {})
    return [(one.name, one.opts, one.help) for one in command.params], {
        name: _options(one) for name, one in below.items()
    }


@pytest.mark.parametrize("out", [("--out", ""), ("--out=",)])
def test_a_scripts_variable_that_is_not_set_is_not_the_folder_that_the_user_is_in(out: tuple[str, ...]) -> None:
    done = fleet("bench", "report", "somewhere", *out)
    assert (done.returncode, done.stdout) == (2, "")
    assert "an argument is empty" in done.stderr
