"""Files are read within bounds, and written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from facts.files import read_bounded, write_whole


def test_a_pipe_a_folder_and_a_long_file_are_not_read(tmp_path: Path) -> None:
    pipe, long = tmp_path / "pipe", tmp_path / "long"
    os.mkfifo(pipe)
    long.write_bytes(b"12345")
    for path in (pipe, tmp_path, tmp_path / "gone"):
        with pytest.raises(OSError, match=str(path)):
            read_bounded(path)
    with pytest.raises(OSError, match=str(long)):
        read_bounded(long, 4)
    assert read_bounded(long, 5) == b"12345"


def test_a_full_disk_keeps_what_was_there_and_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "plan.json"
    write_whole(file, b"before")

    def full(self: Path, content: bytes) -> int:
        os.write(os.open(self, os.O_WRONLY | os.O_CREAT), content[:2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space") as error:
        write_whole(file, b"after")
    assert error.value.filename == str(file)
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"")
    link = tmp_path / "link"
    link.symlink_to("target")
    write_whole(link, b"x")
    assert link.is_symlink()
    assert (tmp_path / "target").read_bytes() == b"x"
    write_whole(Path(os.devnull), b"x")
    assert Path(os.devnull).is_char_device()
