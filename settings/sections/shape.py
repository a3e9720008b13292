"""Section `server.shape`: prefill apart from decode, in each pod."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from settings.sections.section import IMAGE_PART, Section, like

_HOST = r"[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?(:[0-9]{1,5})?"
RouterImage = Annotated[
    str,
    like(
        rf"^{_HOST}(/{IMAGE_PART}){{1,6}}:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}@sha256:[0-9a-f]{{64}}$",
        "HOST/PATH/NAME:TAG@sha256:DIGEST",
    ),
    Field(max_length=400),
]
"""An image with vllm-router, which the stack's owner builds."""


POD_ROUTER_CPU: Final = 4
"""vCPU of the router in a pod, beside those of `server.resources`. Measured: 0.4 ms of processor time for a request, 0.05 ms for a chunk;
each request is two here."""
POD_ROUTER_MEMORY_GIB: Final = 4
"""Measured: 90 KiB for an open stream."""


class ShapeRouter(Section):
    """vllm-router in each server pod, which asks prefill and then decode."""

    image: RouterImage
    """Image with vllm-router 0.1.17 and Python: no release of it is published as an image. docs/prefill-apart.md has the three lines that
    build one."""


class Shape(Section):
    """Engines of a pod that only read prompts, and engines that only answer."""

    prefill_gpus: Annotated[int, Field(ge=1, le=7)]
    """GPUs that read prompts. docs/prefill-apart.md says how many a load needs."""
    decode_gpus: Annotated[int, Field(ge=1, le=7)]
    """GPUs that answer. With prefillGpus the pod's GPUs; `engine.tensorParallelSize` divides both."""
    router: ShapeRouter
    """The router between clients and the engines of its pod."""
