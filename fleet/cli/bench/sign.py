"""`fleet bench sign`: who vouches for a measurement, and whether a file has changed since."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.doctor.packages import require_benchmark_packages

_Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder of the measurement.", file_okay=False, exists=True)
]
_AllowedSigners = Annotated[
    Path | None,
    typer.Option(
        "--allowed-signers",
        metavar="FILE",
        help="Keys that may sign, in OpenSSH's allowed_signers format. Without it any key may.",
    ),
]


def sign(
    folder: _Folder,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="SSH private key, or the public one of a key in the SSH agent."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Sign nothing: show who signed, and the verdict computed again.")
    ] = False,
    allowed_signers: _AllowedSigners = None,
) -> int:
    """Sign a merged measurement: SHA256SUMS of all its files, and SHA256SUMS.sig by `ssh-keygen -Y sign`.

    A signature says who vouches for the files, not that they are certified: the verdict is printed beside the signer. With --check,
    exits with 1 for an unsigned measurement, and with 2 for a changed file, a key that is not allowed, or results that give
    another verdict.
    """
    if check == (key is not None):
        raise CommandError("pass either --key FILE to sign, or --check")
    if key is None:
        return verify_signature(folder, allowed_signers)
    if allowed_signers is not None:
        raise CommandError("--allowed-signers requires --check")
    require_benchmark_packages()
    from fleet.bench import signature

    certificate = signature.sign(folder, key)
    sys.stdout.write(f"{certificate.headline}\n{signature.format_signer(signature.signer(folder))}\n")
    return CLEAN


def verify_signature(folder: _Folder, allowed_signers: _AllowedSigners = None) -> int:
    """Show who signed a measurement, and its verdict, computed again from the results."""
    require_benchmark_packages()
    from fleet.bench import signature
    from fleet.bench.judged import recomputed

    who = signature.signer(folder, allowed_signers)
    if who is not None:
        sys.stdout.write(f"{recomputed(folder).certificate.headline}\n")
    sys.stdout.write(f"{signature.format_signer(who)}\n")
    return CLEAN if who is not None else FINDINGS
