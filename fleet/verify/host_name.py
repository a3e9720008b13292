"""The gateway's host name as clients meet it: the certificate on port 443, what port 80 answers."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fleet.verify.facts import Facts, HostName
from fleet.verify.findings import Part, Seen, Unseen, check, difference

if TYPE_CHECKING:
    from settings.stack import Settings

PORTS: Final = (443, 80)
CALLED: Final = "/v1/completions"
"""Path of the call in clear text; it carries neither key nor prompt."""
LEAST_DAYS: Final = 14
"""Days for which a certificate must still be valid. Assumed: Google renews about a month before the end, so fewer mean that it cannot."""
_DAY_SECONDS: Final = 86_400


def is_asked(settings: Settings, url: str) -> bool:
    """Whether the URL is the stack's host name."""
    host = settings.gateway.hostname
    return settings.gateway.enabled and host is not None and urlsplit(url).hostname == host


def look(
    name: str, seconds: float, *, ports: tuple[int, int] = PORTS, context: ssl.SSLContext | None = None
) -> HostName:
    """Connect to both ports. `context`: what this machine trusts, by default its own certificates."""
    days, tls_trouble = _certificate(name, ports[0], seconds, context or ssl.create_default_context())
    redirect, redirect_trouble = _plain(name, ports[1], seconds, "GET", "/")
    call, _ = _plain(name, ports[1], seconds, "POST", CALLED)
    return HostName(
        name=name,
        days_left=days,
        tls_trouble=tls_trouble,
        redirect=redirect,
        redirect_trouble=redirect_trouble,
        call=call,
    )


def _certificate(name: str, port: int, seconds: float, context: ssl.SSLContext) -> tuple[int | None, str]:
    try:
        with (
            socket.create_connection((name, port), timeout=seconds) as plain,
            context.wrap_socket(plain, server_hostname=name) as secure,
        ):
            ends = (secure.getpeercert() or {}).get("notAfter")
    except ssl.SSLCertVerificationError as error:
        return None, f"refused: {error.verify_message}"
    except OSError as error:
        return None, f"no TLS connection: {error.strerror or error}"
    if not isinstance(ends, str):
        return None, "no certificate"
    left = ssl.cert_time_to_seconds(ends) - datetime.now(UTC).timestamp()
    return int(left // _DAY_SECONDS), ""


def _plain(name: str, port: int, seconds: float, method: str, path: str) -> tuple[str, str]:
    connection = http.client.HTTPConnection(name, port, timeout=seconds)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return " to ".join(filter(None, (str(answer.status), answer.getheader("Location", "")))), ""
    except (OSError, http.client.HTTPException) as error:
        return "", f"no answer: {getattr(error, 'strerror', None) or error}"
    finally:
        connection.close()


@check(
    "host-name",
    "Host name",
    "clients do not trust the certificate, or send prompts and keys in clear text: `fleet doctor --for up --live` looks at the address "
    "and the certificate map",
    needs=lambda _: "",
    applies=lambda settings: settings.gateway.enabled and settings.gateway.hostname is not None,
)
def host_name(facts: Facts, settings: Settings) -> Iterator[Part]:
    """Certificate and port 80."""
    found = facts.name
    if found is None:
        yield Unseen(facts.door_trouble or f"the queried URL is not {settings.gateway.hostname}")
        return
    if found.days_left is None:
        yield difference("endpoint", "certificate", f"valid for {found.name}", found.tls_trouble)
    elif found.days_left < LEAST_DAYS:
        yield difference("endpoint", "certificate", f"valid for {LEAST_DAYS} days", f"{found.days_left} days left")
    # The load balancer may write the port.
    wanted = {f"301 to https://{found.name}{port}/" for port in ("", ":443")}
    if found.redirect not in wanted:
        said = found.redirect or found.redirect_trouble
        yield difference("endpoint", "port 80", f"301 to https://{found.name}/", said)
    # After a redirect, clients repeat a POST as a GET.
    if found.call and int(found.call[:3]) < HTTPStatus.BAD_REQUEST:
        yield difference("endpoint", f"port 80, POST {CALLED}", "404", found.call)
    yield Seen(f"{found.name} has a certificate for {found.days_left} more days, and port 80 serves nothing")
