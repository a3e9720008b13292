from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.judged import judge, write
from fleet.bench.report.source import newest_input_ns
from fleet.bench.signature import sign, signer
from tests.fleet.bench.made_up.results import make_measurement
from tests.fleet.cli.command import fleet

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH's client is not installed")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("mine", "another"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "allowed").write_text(f"me@example.com {(folder / 'mine.pub').read_text()}")
    return folder


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "measured"
    make_measurement(folder, clients=1, requests_per_client=24, with_texts=False, with_gpu=False)
    write(judge(folder), folder / "merged.json")
    return folder


@pytest.fixture
def signed(tmp_path: Path, measured: Path, keys: Path) -> Path:
    folder = tmp_path / "measured"
    shutil.copytree(measured, folder)
    assert signer(folder) is None
    sign(folder, keys / "mine")
    return folder


def test_a_signature_names_its_key_and_who_may_use_it(signed: Path, keys: Path) -> None:
    told = subprocess.run(["ssh-keygen", "-lf", keys / "mine.pub"], check=True, capture_output=True, text=True).stdout
    assert signer(signed) in told.split()
    assert signer(signed, keys / "allowed") == "me@example.com"
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=signed, check=True)


def test_a_key_that_is_not_allowed_is_refused(signed: Path, keys: Path) -> None:
    sign(signed, keys / "another")
    with pytest.raises(BenchmarkError, match="allowed"):
        signer(signed, keys / "allowed")
    only_git = keys / "only-git"
    only_git.write_text(f'me@example.com namespaces="git" {(keys / "another.pub").read_text()}')
    with pytest.raises(BenchmarkError):
        signer(signed, only_git)


@pytest.mark.parametrize("name", ["merged.json", "run.json", "point-00-repeat-0/client-000.json"])
@pytest.mark.parametrize("what", ["has changed", "is missing"])
def test_a_file_that_differs_is_named(signed: Path, name: str, what: str) -> None:
    if what == "is missing":
        (signed / name).unlink()
    else:
        (signed / name).write_text("certified\n")
    with pytest.raises(BenchmarkError, match=f"{name} {what}"):
        signer(signed)


def test_a_file_that_was_added_is_named(signed: Path) -> None:
    (signed / "point-00-repeat-0" / "client-001.json").write_text("{}")
    with pytest.raises(BenchmarkError, match=r"client-001\.json was added"):
        signer(signed)


@pytest.mark.parametrize("first", ['namespaces="git"', 'valid-before="20200101"', ""])
def test_a_key_that_is_listed_twice_is_allowed_by_either_line(signed: Path, keys: Path, first: str) -> None:
    key, allowed = (keys / "mine.pub").read_text(), keys / "twice"
    allowed.write_text(f"me@example.com {first} {key}\n# a remark\nyou@example.com {key}")
    assert signer(signed, allowed) == ("you@example.com" if first else "me@example.com, you@example.com")


def test_a_signers_name_that_is_no_text_is_shown_as_far_as_it_can_be(signed: Path, keys: Path) -> None:
    listed = keys / "odd"
    listed.write_bytes(b"\x90" + (keys / "allowed").read_bytes())
    with pytest.raises(BenchmarkError) as refused:
        signer(signed, listed)
    assert "\N{REPLACEMENT CHARACTER}me@example.com" in str(refused.value)


def test_a_name_that_no_list_of_sums_holds_is_refused(signed: Path, keys: Path) -> None:
    for name in (b"\xff.txt", b"a\nb"):
        file = signed / os.fsdecode(name)
        file.touch()
        with pytest.raises(BenchmarkError, match="rename"):
            sign(signed, keys / "mine")
        file.unlink()


def test_sums_that_were_written_again_are_refused(signed: Path) -> None:
    sums = signed / "SHA256SUMS"
    sums.write_text(sums.read_text().replace("0", "1"))
    with pytest.raises(BenchmarkError, match="does not match"):
        signer(signed)
    sums.unlink()
    with pytest.raises(BenchmarkError, match="missing"):
        signer(signed)


def test_a_report_and_a_signature_change_nothing_that_was_signed(signed: Path, keys: Path) -> None:
    newest = newest_input_ns(signed)
    (signed / "report").mkdir()
    (signed / "report" / "report.html").write_text("page")
    sign(signed, keys / "mine")
    assert newest_input_ns(signed) == newest
    assert "report" not in (signed / "SHA256SUMS").read_text()


def test_what_cannot_be_signed_is_refused(signed: Path, keys: Path) -> None:
    with pytest.raises(BenchmarkError, match="--key"):
        sign(signed, keys / "none")
    (signed / "merged.json").unlink()
    with pytest.raises(BenchmarkError, match="fleet bench merge"):
        sign(signed, keys / "mine")


@pytest.mark.slow
def test_the_commands_sign_verify_and_say_unsigned(signed: Path, keys: Path) -> None:
    known = fleet("bench", "sign", str(signed), "--check", "--allowed-signers", str(keys / "allowed"))
    assert (known.returncode, known.stdout.splitlines()[-1]) == (0, "signed by me@example.com")
    log = signed / "point-00-repeat-0" / "client-000.log"
    log.write_text("other")
    assert fleet("bench", "verify-signature", str(signed)).returncode == 2
    again = fleet("bench", "sign", str(signed), "--key", str(keys / "mine"))
    headline, who = again.stdout.splitlines()
    assert headline == judge(signed).certificate.headline
    assert who.startswith("signed by SHA256:"), again.stderr
    for name in ("SHA256SUMS", "SHA256SUMS.sig"):
        (signed / name).unlink()
    unsigned = fleet("bench", "verify-signature", str(signed))
    assert (unsigned.returncode, unsigned.stdout) == (1, "unsigned\n")
