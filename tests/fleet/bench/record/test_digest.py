from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.record.digest import digest_of_all


def test_what_was_measured_has_one_digest_and_what_was_made_of_it_none(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run.json").write_bytes(b"{}")
    (tmp_path / "run" / "client-000.json").write_bytes(b"1")
    lines = [(b"1", "run/client-000.json"), (b"{}", "run.json")]
    listed = "".join(f"{sha256(content).hexdigest()}  {name}\n" for content, name in lines)
    assert digest_of_all(tmp_path) == sha256(listed.encode()).hexdigest()
    for made in ("report.html", "SHA256SUMS", ".progress"):
        (tmp_path / made).touch()
    assert digest_of_all(tmp_path) == sha256(listed.encode()).hexdigest()
    (tmp_path / "run" / "client-000.json").write_bytes(b"2")
    assert digest_of_all(tmp_path) != sha256(listed.encode()).hexdigest()


@pytest.mark.parametrize("name", [b"\xff.log", b"client\n.json"])
def test_a_name_that_no_list_can_hold_is_refused(tmp_path: Path, name: bytes) -> None:
    (tmp_path / os.fsdecode(name)).touch()
    with pytest.raises(BenchmarkError, match="rename"):
        digest_of_all(tmp_path)
