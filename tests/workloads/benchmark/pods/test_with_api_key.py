"""The program that stands in for a shell: hands the key over and becomes the server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from workloads.server import api_key

PRINT_ENVIRONMENT = "import json, os, sys; print(json.dumps([os.getpid(), os.environ.get('KEY'), sys.argv[1:]]))"


def run(tmp_path: Path, content: str | None, *program: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)
    command = [str(file) if part == api_key.PATH else part for part in api_key.command_with_key("KEY", program)]
    assert command[0] == "python3"
    return subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=False, timeout=30)


def test_the_program_gets_the_key_without_its_line_feed_and_its_own_arguments(tmp_path: Path) -> None:
    done = run(tmp_path, "s3cret\n", sys.executable, "-c", PRINT_ENVIRONMENT, '{"a":1}', "--flag")
    _, key, arguments = json.loads(done.stdout)
    assert key == "s3cret"
    assert arguments == ['{"a":1}', "--flag"]


def test_the_program_replaces_the_process_so_that_it_gets_the_stop_signal(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s3cret")
    parts = api_key.command_with_key("KEY", [sys.executable, "-c", PRINT_ENVIRONMENT])
    command = [str(tmp_path / "key") if part == api_key.PATH else part for part in parts]
    process = subprocess.Popen([sys.executable, *command[1:]], stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate(timeout=30)
    assert json.loads(output)[0] == process.pid


@pytest.mark.parametrize(("content", "said"), [(" \n", "is empty: not starting"), (None, "cannot read the API key:")])
def test_without_a_key_nothing_starts_because_vllm_would_serve_everyone(
    tmp_path: Path, content: str | None, said: str
) -> None:
    done = run(tmp_path, content, sys.executable, "-c", PRINT_ENVIRONMENT)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
