"""vLLM's flags and variables that a stack file passes on: every option of every parser, in every kind of error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from facts.releases import VERSIONS, Options, find
from tests.fuzz.damage import HOSTILE
from tests.fuzz.target import Target
from tests.fuzz.targets import configurations
from tests.support.settings import BASE

_TABLES = [find(version).options for version in VERSIONS]
_CHOICES = sorted({one for table in _TABLES for some in table.choices.values() for one in some})
_VARIABLES = (
    "LD_PRELOAD", "PYTHONPATH", "PATH", "HOME", "HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HTTPS_PROXY", "NO_PROXY", "OMP_NUM_THREADS",
    "NCCL_DEBUG", "CUDA_VISIBLE_DEVICES", "VLLM_PLUGINS", "VLLM_API_KEY", "VLLM_USE_V1", "VLLM_LOGGING_LEVEL", "VLLM_USE_DEEP_GEMM",
    "VLLM_ENGINE_READY_TIMEOUT_S", "vllm_x", "1A", "A=B", "A B", "", "A\n", "é",
)  # fmt: skip


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _sound(table: Options) -> list[str]:
    """Every option with values of its kind."""
    some = ("1", "8", "64", "auto", "x", "{}", '{"a": 1}')
    return [
        word
        for name, kind in sorted(table.kinds.items())
        for word in (
            [f"--{name}"] if kind == "switch" else [f"--{name}={one}" for one in sorted(table.choices.get(name, some))]
        )
    ]


_SOUND_WORDS = st.sampled_from(sorted({word for table in _TABLES for word in _sound(table)}))
_NAMES = st.sampled_from(sorted({name for table in _TABLES for name in (*table.spelled, *table.short)}))
_VALUES = st.sampled_from(_CHOICES) | st.integers(-2, 9).map(str) | HOSTILE.map(_word)
_DASHES = st.sampled_from(["--", "--", "--", "-", "", "---"])


def _words(drawn: tuple[str, int, str, str, int]) -> list[Any]:
    """One option and one value, as one word or as two."""
    name, way, dashes, value, form = drawn
    name = (name, name.replace("-", "_"), f"no-{name}", name[:-2], f"{name}.a.b", name.upper())[way if way < 6 else 0]
    option = f"{dashes}{name}"
    return ([f"{option}={value}"], [option], [option, value], [value], [value, 1])[form]


_WRONG_WORDS = st.tuples(_NAMES, st.integers(0, 11), _DASHES, _VALUES, st.integers(0, 4)).map(_words)
_ARGUMENTS = st.lists(_SOUND_WORDS.map(lambda word: [word]) | _WRONG_WORDS, max_size=3)
_ENVIRONMENT = st.dictionaries(st.sampled_from(_VARIABLES) | HOSTILE.map(_word), HOSTILE, max_size=2)
_ENGINES = st.fixed_dictionaries(
    {"extraArgs": _ARGUMENTS.map(lambda some: [one for words in some for one in words]), "extraEnv": _ENVIRONMENT},
    optional={"version": st.sampled_from(VERSIONS), "entrypoint": st.sampled_from(["module", "serve"])},
)


def _case(drawn: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    profile, engine = drawn
    server = {"replicas": 1, "profile": profile, "engine": engine}
    return {"config": {**_SOUND, "vllm-fleet:server": server}, "changed": ["vllm-fleet:server"], "before": _SOUND}


_SOUND = {
    "gcp:project": configurations.PLACEHOLDER,
    "gcp:region": "europe-west4",
    **{f"vllm-fleet:{key}": value for key, value in BASE.items()},
}
TARGET = Target(
    inputs=st.tuples(st.sampled_from(["serve-chat", "record"]), _ENGINES).map(_case), judge=configurations.judge
)
