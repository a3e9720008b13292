"""Throw-away credentials: for their owner only, different each time, good for the loopback address."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

from cryptography import x509

from lab.control_plane.credentials import issue


def test_every_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    issue(tmp_path, 1234)
    files = list(tmp_path.iterdir())
    assert len(files) == 6
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_the_kubeconfig_names_the_loopback_address_and_the_one_user(tmp_path: Path) -> None:
    found = issue(tmp_path, 1234)
    config = json.loads(found.kubeconfig.read_text())
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1234"
    token, *_ = found.tokens.read_text().split(",")
    assert config["users"][0]["user"] == {"token": token}
    assert '"system:masters"' in found.tokens.read_text()


def test_the_certificate_is_for_the_loopback_address_and_the_kubernetes_service(tmp_path: Path) -> None:
    found = issue(tmp_path, 1234)
    certificate = x509.load_pem_x509_certificate(found.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert sorted(map(str, names.get_values_for_type(x509.IPAddress))) == ["10.96.0.1", "127.0.0.1"]
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)
    context = ssl.create_default_context(cafile=str(found.authority))
    context.load_cert_chain(found.certificate, found.certificate_key)


def test_two_rehearsals_share_no_secret(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = issue(tmp_path / "a", 1), issue(tmp_path / "b", 1)
    assert one.tokens.read_text() != other.tokens.read_text()
    assert one.authority.read_bytes() != other.authority.read_bytes()
    assert one.service_account_key.read_bytes() != other.service_account_key.read_bytes()
