"""Stands in for vLLM where it is not installed; see the package above."""

__version__ = "0.18.1+small-client"
