"""The programs as a pod has them: alone, without docstrings, with the names of the repository's modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from workloads import pod_programs

FILES = sorted(file.relative_to(pod_programs.FOLDER) for file in (pod_programs.FOLDER / "batch/pods").glob("*.py"))
SHARED = ("benchmark/pods/results_bucket.py", "benchmark/pods/server_metrics.py")


def test_the_programs_need_nothing_but_python_and_two_modules_of_the_benchmark(tmp_path: Path) -> None:
    for path in (*map(str, FILES), *SHARED):
        file = tmp_path / "workloads" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(pod_programs.python_program(path), encoding="utf-8")
    # -I: no site-packages of a user and nothing of this folder; -S: none of the environment.
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from workloads.batch.pods.process_batch import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-ISc", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--server-pods" in done.stdout
