"""Addresses of pods and the nameserver, as HAProxy's resolver asks it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from lab.cloud.routers.network import PodNetwork, answered

NAME = "server-pods.space.svc.cluster.local"


@pytest.fixture
def network() -> Iterator[PodNetwork]:
    with PodNetwork() as running:
        yield running


def question(name: str, type_: int = 1, *, additional: bool = True) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    opt = b"\0" + struct.pack("!HHIH", 41, 8192, 0, 0) if additional else b""
    return struct.pack("!6H", 7, 0x100, 1, 0, 0, int(additional)) + labels + b"\0" + struct.pack("!2H", type_, 1) + opt


def counts(answer: bytes) -> tuple[int, int, int]:
    """Code, answers, additional records."""
    _, flags, _, answers, _, additional = struct.unpack_from("!6H", answer)
    return flags & 15, answers, additional


def test_addresses_of_a_name_are_answered() -> None:
    answer = answered(question(NAME), {NAME: ["127.1.0.2", "127.1.0.3"]}.get)
    assert counts(answer) == (0, 2, 1)
    assert socket.inet_aton("127.1.0.2") in answer
    assert socket.inet_aton("127.1.0.3") in answer


def test_an_unknown_name_does_not_exist_and_a_known_one_has_no_address_of_version_6() -> None:
    assert counts(answered(question("other.space"), {NAME: ["127.1.0.2"]}.get))[:2] == (3, 0)
    assert counts(answered(question(NAME, type_=28), {NAME: ["127.1.0.2"]}.get))[:2] == (0, 0)
    assert counts(answered(question(NAME, additional=False), {NAME: list[str]()}.get)) == (0, 0, 0)


@pytest.mark.parametrize("query", [b"", b"\0" * 12 + b"\x3f" * 9, b"\0" * 12 + b"\xff" * 9])
def test_what_is_no_question_is_refused(query: bytes) -> None:
    with pytest.raises((ValueError, IndexError, struct.error)):
        answered(query, lambda _: None)


def test_the_nameserver_answers_after_what_is_no_question(network: PodNetwork) -> None:
    network.resolve = {NAME: ["127.1.0.2"]}.get
    address, _, port = network.nameserver.partition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(5)
        client.sendto(b"nothing", (address, int(port)))
        client.sendto(question(NAME), (address, int(port)))
        assert counts(client.recv(8192)) == (0, 1, 1)


def test_each_pod_has_two_addresses_that_nobody_else_has(network: PodNetwork) -> None:
    with PodNetwork() as other:
        found = [
            of(uid) for uid in map(str, range(600)) for here in (network, other) for of in (here.address, here.own)
        ]
    assert len(set(found)) == len(found)
    assert network.address("1") == network.address("1")
    with socket.create_server((network.address("599"), 0)):
        pass
