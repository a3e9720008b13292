"""The certificate: whether a measurement measured the servers, and only the servers."""

from benchmark.certificate.certify import certify

__all__ = ["certify"]
