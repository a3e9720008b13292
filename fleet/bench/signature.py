"""Signature of a measurement: SHA-256 of every file, signed with an SSH key by the system's `ssh-keygen`.

    DIR/SHA256SUMS        as `sha256sum` writes and checks it; the certificate in merged.json included
    DIR/SHA256SUMS.sig    signature of SHA256SUMS, as `ssh-keygen -Y sign -n vllm-fleet-benchmark` writes it

Source of the commands: ssh-keygen(1) of OpenSSH 8.9 and newer, options -Y sign, verify, find-principals and check-novalidate.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from facts.files import write_whole
from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import MERGED_FILE, SUMS_FILE
from fleet.bench.judged import recomputed, write
from fleet.bench.measurement import Certificate
from fleet.bench.recomputed import digest, digests

SIGNATURE: Final = f"{SUMS_FILE}.sig"
NAMESPACE: Final = "vllm-fleet-benchmark"
"""What the signature is for: one made for a Git commit or an e-mail is refused."""


def sign(folder: Path, key: Path) -> Certificate:
    """Sign a merged measurement, certified or not; returns its certificate, computed again from the results.

    A key with a passphrase is read from the SSH agent or the terminal. Raises BenchmarkError.
    """
    if not (folder / MERGED_FILE).is_file():
        raise BenchmarkError(
            f"{folder / MERGED_FILE} is missing, so there is no certificate to sign; run: fleet bench merge {shlex.quote(str(folder))}"
        )
    judged = recomputed(folder)
    write(judged, folder / MERGED_FILE)  # as computed, to the last text
    sums = "".join(f"{digest}  {name}\n" for name, digest in _digests(folder).items()).encode()
    signature = _ssh_keygen("sign", "-f", str(key), "-n", NAMESPACE, content=sums, problem=f"--key {key}")
    try:
        write_whole(folder / SUMS_FILE, sums)
        write_whole(folder / SIGNATURE, signature.encode())
    except OSError as error:
        raise BenchmarkError(f"{folder}: {error.strerror or error}") from None
    return judged.certificate


def signer(folder: Path, allowed_signers: Path | None = None) -> str | None:
    """Who signed the measurement; None: unsigned.

    Without `allowed_signers` (its format: ssh-keygen(1), ALLOWED SIGNERS) the key's fingerprint. Raises BenchmarkError where the
    signature does not hold, naming every file that differs, and for a signer who is not allowed.
    """
    there = [(folder / name).is_file() for name in (SUMS_FILE, SIGNATURE)]
    if not any(there):
        return None
    if not all(there):
        raise BenchmarkError(
            f"{folder}: {SUMS_FILE} and {SIGNATURE} belong together and one is missing; sign again: {_how(folder)}"
        )
    sums, place = (folder / SUMS_FILE).read_bytes(), str(folder / SIGNATURE)
    problem = f"{place} does not match {SUMS_FILE}"
    told = _ssh_keygen("check-novalidate", "-n", NAMESPACE, "-s", place, content=sums, problem=problem)
    _require_unchanged(folder, sums)
    if allowed_signers is None:
        return next(word for word in told.split() if word.startswith("SHA256:"))
    if not allowed_signers.is_file():
        raise BenchmarkError(f"--allowed-signers {allowed_signers}: no such file")
    return _allowed(allowed_signers, place, sums)


def _allowed(signers: Path, place: str, sums: bytes) -> str:
    """Every principal of `signers` that may have made the signature. Raises BenchmarkError without one.

    Line by line: `find-principals` ends at the first line with the key, which may allow it for something else.
    """
    names, refusals = [], []
    with NamedTemporaryFile(prefix="fleet-signer-") as one:
        known = ("-f", one.name, "-s", place)
        for line in signers.read_bytes().splitlines(keepends=True):
            one.seek(0)
            one.truncate()
            one.write(line)
            one.flush()
            for who in _principals(known, sums):
                try:
                    _ssh_keygen("verify", *known, "-I", who, "-n", NAMESPACE, content=sums, problem=who)
                except BenchmarkError as error:
                    refusals.append(str(error))
                else:
                    names.append(who)
    if names:
        return ", ".join(dict.fromkeys(names))
    if refusals:
        raise BenchmarkError(f"{signers}: the signer is not allowed to sign this: {'; '.join(refusals)}")
    raise BenchmarkError(f"the signer is not in {signers}")


def _principals(known: Sequence[str], sums: bytes) -> list[str]:
    try:
        return _ssh_keygen("find-principals", *known, content=sums, problem="").splitlines()
    except BenchmarkError:
        return []


def format_signer(who: str | None) -> str:
    """The signer, or `unsigned`."""
    return "unsigned" if who is None else f"signed by {who}"


def _require_unchanged(folder: Path, sums: bytes) -> None:
    signed = {name: digest for digest, _, name in (line.partition("  ") for line in sums.decode().splitlines())}
    now = _digests(folder)
    changes = [
        f"{name} {'is missing' if name not in now else 'was added' if name not in signed else 'has changed'}"
        for name in sorted(signed.keys() | now.keys())
        if signed.get(name) != now.get(name)
    ]
    if changes:
        raise BenchmarkError(
            f"{folder}: files differ from what was signed: {'; '.join(changes)}. Restore them, or sign again: {_how(folder)}"
        )


def _digests(folder: Path) -> dict[str, str]:
    merged = folder / MERGED_FILE
    return {**digests(folder), **({MERGED_FILE: digest(merged)} if merged.is_file() else {})}


def _how(folder: Path) -> str:
    return f"fleet bench sign {shlex.quote(str(folder))} --key FILE"


def _ssh_keygen(what: str, *options: str, content: bytes, problem: str) -> str:
    """What `ssh-keygen -Y` prints. Raises BenchmarkError with the problem and its last line."""
    command = ["ssh-keygen", "-Y", what, *options]
    try:
        done = subprocess.run(command, input=content, capture_output=True, check=False)
    except FileNotFoundError:
        raise BenchmarkError("ssh-keygen is not on PATH; install OpenSSH's client (8.9 or newer)") from None
    if done.returncode:
        why = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise BenchmarkError(f"{problem}: {why[-1] if why else f'ssh-keygen ended with exit code {done.returncode}'}")
    return done.stdout.decode(errors="replace")
