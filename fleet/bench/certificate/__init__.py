"""The certificate: whether a measurement measured the servers, and only the servers."""

from fleet.bench.certificate.certify import certify

__all__ = ["certify"]
