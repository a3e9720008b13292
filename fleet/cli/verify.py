"""`fleet verify`: checks that a live stack serves what its file declares."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from facts.names import HTTP_PORT
from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.options import Format, Live, OneStack
from fleet.doctor.packages import require_verify_packages

if TYPE_CHECKING:
    from settings.stack import Settings

_KEY_VARIABLE = "VLLM_API_KEY"
_BASE_URL = re.compile(r"https?://(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::[1-9]\d{0,4})?")


@with_fields
def verify(
    of: OneStack,
    live: Live,
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint",
            "-e",
            metavar="URL",
            help="Check this URL instead of the stack's; the cluster is checked only with --outputs, --kubeconfig or --context.",
        ),
    ] = None,
    canary: Annotated[bool, typer.Option("--canary", help="Check the canary's pod against rollout.")] = False,
    answers: Annotated[
        bool,
        typer.Option(
            "--answers", help="Also ask every engine one question, alone and under load, and compare the answers."
        ),
    ] = False,
    format_: Format = "text",
) -> int:
    """Check that a live stack serves what its file declares. Takes up to a minute.

    Sends a few short requests to every replica. Exits with 1 if something differs. If the stack has an API
    key, set VLLM_API_KEY.
    """
    folder, name = of.find()
    url = None if endpoint is None else base_url(endpoint)
    require_verify_packages()
    from settings.load import parse
    from settings.sections.section import NAMESPACE
    from settings.stack_file import read

    file = read(folder, name)
    settings = parse(name, file.config, file.unopened)
    if canary:
        if settings.as_canary is None:
            raise CommandError(f"--canary: stack {name} has no canary: docs/rollout.md")
        settings = settings.as_canary
    key = api_key(settings)
    from fleet.clients import stack_outputs
    from fleet.verify.report import outline
    from fleet.verify.verification import Asking
    from fleet.verify.verification import verify as look

    # A given endpoint or cluster needs no stack outputs.
    named = url is not None or live.names_cluster
    outputs = stack_outputs.read(name, folder, live.outputs) if live.outputs is not None or not named else None
    if canary and outputs is not None:
        # The stack's endpoint serves the servers; the canary's resolves only inside the cluster.
        outputs = replace(
            outputs, endpoint=f"http://{settings.server.name}.{settings.namespace}.svc.cluster.local:{HTTP_PORT}"
        )
    asking = Asking(
        endpoint=url,
        outputs=outputs,
        kubeconfig=live.kubeconfig,
        context=live.context,
        api_key=key,
        answers=answers,
    )
    found = look(settings, NAMESPACE, asking)
    if found.outcome == "not checked":
        why = next((check[0].found for check in found.checks if check[0].id == "reachable"), found.verdict)
        raise CommandError(f"nothing could be checked: {why}")
    show(outline(found), format_)
    return CLEAN if found.outcome == "passed" else FINDINGS


def base_url(given: str) -> str:
    """The URL without a trailing slash. Raises CommandError for anything but a server's base URL."""
    base = given.rstrip("/")
    if not _BASE_URL.fullmatch(base):
        # It may contain a password.
        shown = "with a user name" if "@" in given else given
        raise CommandError(
            f"--endpoint {shown}: must be http://HOST[:PORT] or https://HOST[:PORT], without user name, path and query; "
            f"for example http://127.0.0.1:8000. {_KEY_VARIABLE} takes a key"
        )
    return base


def api_key(settings: Settings) -> str | None:
    """The API key, if the stack has one. Raises CommandError, without the key, if it is missing or not a valid header."""
    if not settings.guards_v1_only:
        return None
    key = os.environ.get(_KEY_VARIABLE, "").strip()
    if not key:
        where = settings.api_key_secret
        secret = f"Secret Manager holds it as {where.name}" if where else "`pulumi config get apiKey` prints it"
        raise CommandError(
            f"stack {settings.stack} needs an API key, and {_KEY_VARIABLE} is not set; {secret}: "
            f"export {_KEY_VARIABLE}=..."
        )
    if not key.isascii() or not key.isprintable():
        raise CommandError(f"{_KEY_VARIABLE} must be one line of printable ASCII")
    return key
