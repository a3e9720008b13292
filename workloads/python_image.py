"""Python's own image, for programs of this project that need no vLLM: the spending guard and the pods of a batch."""

from typing import Final

IMAGE: Final = (
    "library/python:3.13.14-alpine3.24@sha256:399babc8b49529dabfd9c922f2b5eea81d611e4512e3ed250d75bd2e7683f4b0"
)
"""Python and its standard library, about 20 MB; the servers' image has 10 GB. Source: Docker Hub, as ten public repositories pin it."""
NONROOT: Final = 65532
"""User of pods that need no other."""
