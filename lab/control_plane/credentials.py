"""Temporary certificates, keys and tokens of a control plane."""

from __future__ import annotations

import json
import secrets
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

SERVICE_ADDRESSES: Final = "10.96.0.0/16"
"""Service addresses, not routed. Assumed: kubeadm's default, smaller for a quick scan."""
_FIRST_SERVICE_ADDRESS: Final = "10.96.0.1"
"""Address of the Service `kubernetes`, hence in the certificate."""


class Authority:
    """Signs for every name that a client asks for: of the control plane, of cluster addresses, of chart registries."""

    def __init__(self) -> None:
        self.own = trustme.CA(organization_name="vllm-fleet rehearsal")
        self._contexts: dict[str, ssl.SSLContext] = {}

    def served(self, connection: socket.socket) -> ssl.SSLSocket:
        """The server's side of a TLS connection, with a certificate for the name that its client expects. Raises OSError."""
        context = self._context("localhost")
        context.sni_callback = self._named
        return context.wrap_socket(connection, server_side=True)

    def _named(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        if name:
            connection.context = self._context(name)

    def _context(self, name: str) -> ssl.SSLContext:
        if name not in self._contexts:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.own.issue_cert(name).configure_cert(context)
            self._contexts[name] = context
        return self._contexts[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Files of a control plane, readable by their owner only."""

    signer: Authority
    authority: Path
    certificate: Path
    certificate_key: Path
    service_account_key: Path
    tokens: Path
    kubeconfig: Path
    token: str
    """Of the only user, a cluster admin."""


def issue(folder: Path, port: int) -> Credentials:
    """Write all files for an API server on this loopback port. The only user is cluster admin."""
    signer = Authority()
    found = Credentials(
        signer=signer,
        authority=folder / "ca.pem",
        certificate=folder / "server.pem",
        certificate_key=folder / "server.key",
        service_account_key=folder / "service-accounts.key",
        tokens=folder / "tokens.csv",
        kubeconfig=folder / "kubeconfig",
        token=secrets.token_hex(32),
    )
    server = signer.own.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc", _FIRST_SERVICE_ADDRESS)
    # Elliptic curve: an RSA key takes 0.1 s to generate.
    signing_key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    _write(found.authority, signer.own.cert_pem.bytes())
    _write(found.certificate, b"".join(blob.bytes() for blob in server.cert_chain_pems))
    _write(found.certificate_key, server.private_key_pem.bytes())
    _write(found.service_account_key, signing_key)
    _write(found.tokens, f'{found.token},rehearsal,rehearsal,"system:masters"\n'.encode())
    _write(found.kubeconfig, _kubeconfig(port, found.authority, found.token))
    return found


def _kubeconfig(port: int, authority: Path, token: str) -> bytes:
    # A path, not data: the Python client would copy data into a temporary file that a killed rehearsal leaves behind.
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(authority)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rehearsal", "cluster": cluster}],
        "users": [{"name": "rehearsal", "user": {"token": token}}],
        "contexts": [{"name": "rehearsal", "context": {"cluster": "rehearsal", "user": "rehearsal"}}],
        "current-context": "rehearsal",
    }
    return json.dumps(document, indent=1).encode()  # JSON is valid YAML.


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
