"""vLLM releases as data: options, defaults, changes and known defects.

Source of changes: the wheels of 0.18.1, 0.19.0, 0.19.1, 0.20.0, 0.20.2, 0.22.1, 0.24.0, and all from 0.26.0 to 0.33.0. A change in a
release that was not read is assigned to the next one that was. Options come from the two parsers; `make vllm-check` compares them and
the defaults below with both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Literal

from facts import ledger
from facts.machines import Gpu

Number = tuple[int, int, int]
_TAG: Final = re.compile(r"v?([0-9]+)\.([0-9]+)(?:\.([0-9]+))?(?![0-9.])")
_LARGE_GIB: Final = 70
_LARGEST_GIB: Final = 160
_B200: Final = 10
"""Compute capability, without its last digit, of B200 and GB200."""
_HOPPER: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a release's argument parser, by long name without dashes."""

    kinds: Mapping[str, str]
    """switch, value or list."""
    short: Mapping[str, str]
    """Long name by short form."""
    spelled: Mapping[str, str]
    """Long name by every long spelling, with `no-` for a spelling that disables it."""
    choices: Mapping[str, frozenset[str]]
    """Choices of options that have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of behavior since a release, independent of flags."""

    id: str
    since: Number
    what: str
    option: str = ""
    """Option or variable whose default changed; servers that set it are not affected."""
    hybrid: bool = False
    """Whether it affects models with linear layers only."""
    least_gib: float = 0
    """Minimum memory of affected GPUs."""
    family: int | None = None
    """Compute capability, without its last digit, of affected GPUs; None: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A publicly reported defect. Security advisories are in `facts.advisories`."""

    id: str
    kind: Literal["answers", "speed"]
    """`answers`: wrong output. `speed`: right output, slower than the hardware allows."""
    since: Number = (0, 0, 0)
    fixed: Number | None = None
    """First release without it; None if unknown."""
    what: str
    source: str
    family: int | None = None
    """Compute capability, without its last digit, of affected GPUs; None: all."""
    kept: str = ""
    """Of `speed`: the ledger's entry with the share of throughput that remains, lowest and highest."""

    def touches(self, number: Number) -> bool:
        """Whether a release has the defect."""
        return self.since <= number and (self.fixed is None or number < self.fixed)

    @property
    def throughput_kept(self) -> tuple[float, float]:
        """Share of throughput that remains with a `speed` defect, lowest and highest."""
        return (ledger.value(f"{self.kept}.low"), ledger.value(f"{self.kept}.high")) if self.kept else (1.0, 1.0)

    @property
    def effect(self) -> str:
        """What a `speed` defect leaves, in one phrase."""
        low, high = self.throughput_kept
        return f"{self.id}: {low:.0%} to {high:.0%} of the throughput remains"


CHANGES: Final = (
    Change(
        id="counts-cuda-graphs",
        since=(0, 20, 0),
        option="VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
        what="CUDA graphs are counted in the share of GPU memory, which leaves less for the cache",
    ),
    Change(
        id="takes-more-memory",
        since=(0, 20, 0),
        option="gpu-memory-utilization",
        what="the default share of GPU memory is 0.92 instead of 0.9",
    ),
    Change(
        id="refuses-sequences-above-states",
        since=(0, 20, 0),
        option="max-num-seqs",
        hybrid=True,
        what="a server with more sequences than recurrent states does not start",
    ),
    Change(
        id="gdn-prefill-flashinfer",
        since=(0, 22, 1),
        option="gdn-prefill-backend",
        hybrid=True,
        family=_B200,
        what="on B200 prefill uses FlashInfer's kernel for Gated-DeltaNet layers, which may compile for minutes at first start",
    ),
    Change(
        id="batched-tokens-by-memory",
        since=(0, 28, 0),
        option="max-num-batched-tokens",
        least_gib=_LARGEST_GIB,
        what="on GPUs of 160 GiB and more a step computes 16,384 tokens instead of 8,192",
    ),
    Change(
        id="captures-1024-tokens",
        since=(0, 28, 0),
        option="max-cudagraph-capture-size",
        family=_B200,
        what="on B200 and GB200 CUDA graphs are captured for steps of up to 1,024 tokens instead of 512",
    ),
    Change(
        id="caches-prefixes-of-hybrids",
        since=(0, 28, 0),
        option="enable-prefix-caching",
        hybrid=True,
        what="prefix caching is on by default for hybrid models (vllm-project/vllm#50991)",
    ),
    Change(
        id="runs-model-runner-v2",
        since=(0, 32, 0),
        what="another model runner (V2) is used; figures of older releases do not apply to it",
    ),
)
DEFECTS: Final = (
    Defect(
        id="prefix-caching-with-mtp",
        kind="answers",
        what="prefix caching with MTP on a hybrid model corrupts responses after a hit; each alone works. One comparison: 8.75 % of tasks "
        "solved with both, 26.88 % with MTP only",
        source="vllm-project/vllm#43559, #47194 and #53912 (0.28.0, open on 2026-08-31), NovaSky-AI/SkyRL#1981; no fixed release is known",
    ),
    Defect(
        id="deepgemm-on-b200",
        kind="answers",
        family=_B200,
        fixed=(0, 18, 1),
        what="Qwen3.5 on B200 uses DeepGEMM, whose scales reduce accuracy; VLLM_USE_DEEP_GEMM=0 avoids it",
        source="both wheels, utils/deep_gemm.py",
    ),
    Defect(
        id="unaligned-fp8-rows-b200",
        kind="speed",
        family=_B200,
        since=(0, 18, 0),
        fixed=(0, 31, 0),
        what="without DeepGEMM, CUTLASS' block-wise FP8 product on B200 uses its kernel for small batches whenever the rows of a step are "
        "no multiple of four: 2.2 to 7 times as long for 257 to 8,193 rows",
        source="vllm-project/vllm#57377 (2026-09-17, these figures, on a GB300 at this model's shape), #56982; by the wheels' symbols in "
        "0.18.1, 0.22.1, 0.24.0 and 0.30.0, not in 0.31.0 to 0.33.0; not run on a B200",
        kept="fp8_products.derived.b200-kept",
    ),
    Defect(
        id="unaligned-fp8-rows-hopper",
        kind="speed",
        family=_HOPPER,
        since=(0, 24, 0),
        what="without DeepGEMM, CUTLASS' block-wise FP8 product on Hopper uses its kernel for small batches whenever the rows of a step "
        "are no multiple of four: 1.1 times as long for a prompt of 383 tokens as for 384, 3.7 times for 4,999 as for 5,000",
        source="vllm-project/vllm#44572; own trial of 0.33.0 on one H200 (facts/data/fp8_products.yaml); no fixed release is known",
        kept="fp8_products.derived.hopper-kept",
    ),
)
"""Defects that affect this project."""
CUTLASS: Final = "cutlass"
"""The linear backend without DeepGEMM."""
USE_DEEP_GEMM: Final = "VLLM_USE_DEEP_GEMM"
_WITHOUT_DEEP_GEMM: Final = (0, 18, 1)
INSTEAD: Final[Mapping[str, str]] = {
    "disable-log-requests": "requests are not logged unless --enable-log-requests is given",
    "calculate-kv-scales": "remove it: scales come from the checkpoint",
    "override-attention-dtype": "remove it and use kvCacheDtype",
    "swap-space": "remove it: this vLLM preempts by recomputing and does not swap to CPU memory",
    "max-seq-len-to-capture": "write maxCudagraphCaptureSize, in tokens of a step",
    "max-context-len-to-capture": "write maxCudagraphCaptureSize, in tokens of a step",
    "cuda-graph-sizes": "write maxCudagraphCaptureSize, in tokens of a step",
    "enable-reasoning": "remove it: reasoningParser is enough",
    "rope-scaling": "use a checkpoint whose config.json has it",
    "rope-theta": "use a checkpoint whose config.json has it",
    "task": "remove it: this server generates text",
    "device": "remove it: the image is for NVIDIA GPUs",
    "quantization-param-path": "remove it: scales come from the checkpoint",
    **dict.fromkeys(
        ("speculative-model", "num-speculative-tokens"), "write speculative: {method: mtp, numSpeculativeTokens: 1}"
    ),
}
"""What to write instead of a flag that a release does not have. Source: vLLM's release notes, 0.5 to 0.33."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release of vLLM."""

    version: str
    table: str
    """Release whose parser options apply."""
    known: bool = True
    """Whether its options and defaults are known."""
    cuda: str = ""
    """CUDA of its torch. Source: torch/version.py of the pinned release."""
    driver: int = 0
    """Lowest NVIDIA driver branch. Source: NVIDIA, "CUDA Compatibility": 525 for CUDA 12.x, 580 for 13.x; B200 needs 570."""
    digest: str | None = None
    """Published digest of vllm/vllm-openai at its tag; None if unknown."""
    number: Number = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", number_of(self.version))

    @property
    def tag(self) -> str:
        """The image's tag."""
        return f"v{self.version}"

    @property
    def options(self) -> Options:
        """Options of its parser."""
        return _options(self.table)

    @property
    def series(self) -> frozenset[str]:
        """Names of the series that it can export."""
        return _series(self.table)

    def has(self, change: str) -> bool:
        """Whether it has a change of `CHANGES`. Raises KeyError."""
        return self.number >= _SINCE[change]

    def batched_tokens(self, gpu: Gpu) -> int:
        """Default maximum tokens of a step. Source: engine/arg_utils.py, get_batch_defaults."""
        if not _is_large(gpu):
            return 2_048
        return 16_384 if gpu.memory_gib >= _LARGEST_GIB and self.has("batched-tokens-by-memory") else 8_192

    def sequences(self, gpu: Gpu) -> int:
        """Default maximum sequences of an engine. Source: the same function."""
        return 1_024 if _is_large(gpu) else 256

    def captured_tokens(self, gpu: Gpu) -> int:
        """Default largest step, in tokens, that is captured as a CUDA graph. Source: config/vllm.py."""
        return 1_024 if gpu.compute_capability // 10 == _B200 and self.has("captures-1024-tokens") else 512

    def caches_prefixes(self, asked: bool | None, *, hybrid: bool) -> bool:
        """Whether prefix caching is on: as asked, else by default, which earlier releases do not have for hybrid models."""
        return (not hybrid or self.has("caches-prefixes-of-hybrids")) if asked is None else asked

    @property
    def gpu_memory_share(self) -> float:
        """Default share of a GPU's memory. Source: config/cache.py."""
        return 0.92 if self.has("takes-more-memory") else 0.9

    @property
    def defects(self) -> tuple[Defect, ...]:
        """Known defects of this release."""
        return tuple(defect for defect in DEFECTS if defect.touches(self.number))

    def slow_product(self, gpu: Gpu, *, qwen35: bool, deep_gemm: bool | None) -> Defect | None:
        """The defect that slows block-wise FP8 products on this GPU; None without one. `deep_gemm`: of `chosen_deep_gemm`.

        Source: 0.18.1 and 0.33.0, config/vllm.py: DeepGEMM is switched off for Qwen3.5 on B200, whatever the variable says;
        utils/deep_gemm.py: on by default, on Hopper and B200 only.
        """
        family = gpu.compute_capability // 10
        switched_off = family == _B200 and qwen35 and self.number >= _WITHOUT_DEEP_GEMM
        if deep_gemm is not False and not switched_off:
            return None
        return next((defect for defect in self.defects if defect.kind == "speed" and defect.family == family), None)


def _is_large(gpu: Gpu) -> bool:
    # In vLLM 0.18.1 and 0.33.0; smaller GPUs and every A100 have lower defaults.
    return gpu.memory_gib >= _LARGE_GIB and "A100" not in gpu.name


def number_of(version: str) -> Number:
    """`0.18.1` as numbers. Raises ValueError."""
    major, minor, patch = version.split(".")
    return int(major), int(minor), int(patch)


_SINCE: Final = {one.id: one.since for one in CHANGES}
_RELEASES: Final = {
    one.version: one
    for one in (
        # The article's. Its parser is 0.18.1's (both compared).
        Release(version="0.18.0", table="0.18.1", cuda="12.8", driver=525),
        Release(
            version="0.18.1",
            table="0.18.1",
            cuda="12.8",
            driver=525,
            digest="sha256:228113d30448941e7a845f57ef0b3d3ea74ffda81be72ded4f8d6dfab0124fe6",
        ),
        Release(version="0.33.0", table="0.33.0", cuda="13.0", driver=580),
    )
}
VERSIONS: Final = tuple(_RELEASES)
"""Known releases, oldest first."""
ARTICLES: Final = "0.18.0"
"""The article's release."""
DEFAULT: Final = "0.18.1"
"""Release whose options and defaults are assumed where none is named: an unknown image's, and the calibration's."""
CURRENT: Final = "0.33.0"
"""Release of every server that does not name another: free of every advisory whose fix is known, and of the FP8 product's defect."""


def find(version: str) -> Release:
    """A known release. Raises KeyError."""
    return _RELEASES[version]


def at(number: Number) -> Release:
    """A release, known or not. An unknown release has the options of the latest known one before it."""
    version = ".".join(str(part) for part in number)
    if version in _RELEASES:
        return _RELEASES[version]
    before = [release for release in _RELEASES.values() if release.number <= number]
    nearest = before[-1] if before else _RELEASES[VERSIONS[0]]
    return Release(version=version, table=nearest.table, known=False)


def chosen_deep_gemm(linear_backend: object, variable: str | None) -> bool | None:
    """Whether `--linear-backend` and VLLM_USE_DEEP_GEMM choose DeepGEMM for FP8 products; None if they leave it to vLLM."""
    if linear_backend == CUTLASS:
        return False
    return None if variable is None else variable.strip() != "0"


def of_tag(tag: str) -> Release | None:
    """The release of an image's tag; None if the tag is not a release."""
    match = _TAG.match(tag)
    return None if match is None else at((int(match[1]), int(match[2]), int(match[3] or 0)))


_SAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "gauge": ("",),
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
}
"""What Prometheus' client adds to the name of a family. Source: prometheus_client, metrics.py."""


@cache
def _series(version: str) -> frozenset[str]:
    names = []
    for line in (Path(__file__).parent / "data" / "vllm-series.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            kind, name, *releases = line.split()
            bare = name.removesuffix("_total") if kind == "counter" else name
            names += [f"vllm:{bare}{ending}" for ending in _SAMPLES[kind] if version in releases]
    return frozenset(names)


@cache
def _options(version: str) -> Options:
    kinds: dict[str, str] = {}
    # vLLM reads it before its parser, which does not list it.
    short: dict[str, str] = {"O": "optimization-level"}
    spelled: dict[str, str] = {}
    choices: dict[str, frozenset[str]] = {}
    file = Path(__file__).parent / "data" / f"vllm-{version}-options.txt"
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name, kind, *forms = line.split()
        kinds[name] = kind
        spelled[name] = name
        if kind == "switch":
            spelled[f"no-{name}"] = f"no-{name}"
        for form in forms:
            if form.startswith("="):
                choices[name] = frozenset(form[1:].split(","))
            elif form.startswith("!"):
                spelled[form[1:]] = f"no-{name}"
            elif form.startswith("--"):
                spelled[form[2:]] = name
            else:
                short[form] = name
    return Options(kinds=kinds, short=short, spelled=spelled, choices=choices)
