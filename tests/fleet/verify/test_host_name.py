"""The gateway's host name as clients meet it, from a real TLS server on this machine."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fleet.verify.facts import Facts, HostName
from fleet.verify.host_name import CALLED, LEAST_DAYS, host_name, is_asked, look
from settings.stack import Settings
from tests.support.rows import each_row
from tests.support.settings import make_settings
from tests.support.simulators.local_server import Answer, Request, served

HOST = "localhost"
"""Of the servers here. Settings accept full names only, so the checks of a report have another."""
NAMED = make_settings(gateway={"enabled": True, "hostname": "llm.acme.dev"})
GOOD = HostName(name="llm.acme.dev", days_left=60, redirect="301 to https://llm.acme.dev/")


@pytest.fixture(scope="module")
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def certificate(folder: Path, key: ec.EllipticCurvePrivateKey, *, host: str = HOST, days: int = 60) -> Path:
    """A certificate that signs itself, with its key in one file."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    began = datetime.now(UTC) - timedelta(days=90)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(began)
        .not_valid_after(datetime.now(UTC) + timedelta(days=days, hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file = folder / f"{host}.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + pem)
    return file


def redirects(request: Request) -> Answer:
    return Answer(301, b"", {"Location": f"https://{HOST}/"}) if request.method == "GET" else Answer(404, b"")


def seen(tls: Path, trusted: Path) -> HostName:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls)
    with served(redirects, tls=context) as secure, served(redirects) as plain:
        return look(HOST, 5, ports=(secure, plain), context=ssl.create_default_context(cafile=str(trusted)))


def test_a_trusted_certificate_and_its_days_and_the_redirect_are_seen(
    tmp_path: Path, key: ec.EllipticCurvePrivateKey
) -> None:
    file = certificate(tmp_path, key)
    assert seen(file, file) == HostName(name=HOST, days_left=60, redirect=f"301 to https://{HOST}/", call="404")


@each_row(("host", "days", "says"), [("another", 60, "mismatch"), (HOST, -1, "expired")])
def test_a_certificate_that_clients_refuse_is_refused_here(
    tmp_path: Path, key: ec.EllipticCurvePrivateKey, host: str, days: int, says: str
) -> None:
    file = certificate(tmp_path, key, host=host, days=days)
    found = seen(file, file)
    assert found.days_left is None
    assert says in found.tls_trouble


def test_ports_without_a_listener_are_troubles_and_no_crash() -> None:
    with served(redirects) as plain:
        port = plain
    found = look(HOST, 5, ports=(port, port))
    assert found.tls_trouble
    assert found.redirect_trouble


@each_row(
    ("found", "where"),
    [
        (HostName(name=GOOD.name, tls_trouble="refused: expired", redirect=GOOD.redirect), "certificate"),
        (HostName(name=GOOD.name, days_left=LEAST_DAYS - 1, redirect=GOOD.redirect), "certificate"),
        (HostName(name=GOOD.name, days_left=60, redirect="200"), "port 80"),
        (HostName(name=GOOD.name, days_left=60, redirect_trouble="no answer"), "port 80"),
        (HostName(name=GOOD.name, days_left=60, redirect="302 to https://llm.acme.dev/"), "port 80"),
        (replace(GOOD, call="301 to https://llm.acme.dev/v1/completions"), f"port 80, POST {CALLED}"),
        (replace(GOOD, call="200"), f"port 80, POST {CALLED}"),
    ],
)
def test_what_a_client_would_stumble_over_fails(found: HostName, where: str) -> None:
    check = host_name(Facts(endpoint="", door=None, name=found), NAMED)
    assert check is not None
    assert check[0].severity == "error"
    assert [one.subject for one in check[1:]] == [f"endpoint · {where}"]


@each_row(
    ("settings", "found", "severity"),
    [
        (NAMED, GOOD, "passed"),
        (NAMED, HostName(name=GOOD.name, days_left=60, redirect="301 to https://llm.acme.dev:443/"), "passed"),
        (NAMED, None, "unknown"),
        (make_settings(gateway={"enabled": True}), None, None),
        (make_settings(), None, None),
    ],
)
def test_a_stack_without_a_name_has_no_such_check(
    settings: Settings, found: HostName | None, severity: str | None
) -> None:
    check = host_name(Facts(endpoint="", door=None, name=found), settings)
    assert (check[0].severity if check else None) == severity


def test_only_the_stacks_own_name_is_asked() -> None:
    assert is_asked(NAMED, "https://llm.acme.dev")
    assert not is_asked(NAMED, "http://127.0.0.1:8000")
    assert not is_asked(make_settings(), "https://llm.acme.dev")
