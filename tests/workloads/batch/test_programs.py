"""The programs as a pod has them: alone, without docstrings, with the names of the repository's modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from workloads import pod_programs
from workloads.batch.job import PROGRAM


def test_the_programs_need_nothing_but_python(tmp_path: Path) -> None:
    for path, code in pod_programs.package_of(PROGRAM).items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code, encoding="utf-8")
    # -I: no site-packages of a user and nothing of this folder; -S: none of the environment.
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from {PROGRAM} import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-ISc", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--request-seconds" in done.stdout
