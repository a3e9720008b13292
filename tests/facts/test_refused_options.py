"""Refused options and variables, in every spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from facts import refused_options
from facts.engines import find, parse
from tests.support.rows import each_row

RELEASES = ("0.18.1", "0.33.0")


def test_every_refused_option_is_one_of_a_release_and_every_variable_of_vllm_too() -> None:
    own = {name for version in RELEASES for name in find(version).options.kinds}
    files = (Path(f"tests/vllm/{version}-variables.txt") for version in RELEASES)
    variables = {name for file in files for name in file.read_text(encoding="utf-8").split()}
    named = {name.partition(".")[0] for name in refused_options.names()}
    assert {name for name in named if name.islower()} <= own
    assert {name for name in named if name.startswith("VLLM_")} <= variables


def refused(*words: str) -> set[str]:
    options = parse(words).options.items()
    return {part for name, value in options for part, verdict in refused_options.option(name, value) if verdict.write}


@each_row(
    ("words", "expected"),
    [
        (("--trust-remote-code",), set()),
        (("--worker_cls=x.Y",), {"worker-cls"}),
        (("--worker-ext", "x.Y"), {"worker-extension-cls"}),
        (("--middleware", "x.Y"), {"middleware"}),
        (("-n", "2"), {"nnodes"}),
        (("-n2",), {"nnodes"}),
        (("--nnodes=1",), set()),
        (("--config", "/f.yaml"), {"config"}),
        (("--speculative-config", '{"method": "mtp"}'), set()),
        (("--speculative-config.method=custom_class",), {"speculative-config.method"}),
        (("-cc.backend=x.y",), {"compilation-config.backend"}),
        (("-cc", '{"backend": "inductor", "mode": 3}'), set()),
        (("--compilation-config.backend=x.y", "--compilation-config={}"), {"compilation-config.backend"}),
        (("--compilation-config.inductor_passes.p=x.y",), {"compilation-config.inductor_passes.p"}),
        (("--compilation-config.new=1",), set()),
        (
            ('--kv-transfer-config={"kv_connector_module_path":"x"}',),
            {"kv-transfer-config.kv_connector_module_path"},
        ),
        (
            ("--structured-outputs-config.reasoning_parser_plugin=/x.py",),
            {"structured-outputs-config.reasoning_parser_plugin"},
        ),
        (("--hf-overrides.auto_map.AutoModel=x.Y",), {"hf-overrides.auto_map.AutoModel"}),
        (("--allowed-local-media-path=/",), {"allowed-local-media-path"}),
        (("--allowed-local-media-path=//",), {"allowed-local-media-path"}),
        (("--allowed-local-media-path=/media/../",), {"allowed-local-media-path"}),
        (("--allowed-local-media-path=/media",), set()),
        (("--runner=pooling",), {"runner"}),
        (("--runner=auto",), set()),
        (("--load-format=dummy",), {"load-format"}),
        (("--load-format=auto",), set()),
        (("--attention-config.backend=TRITON_ATTN",), {"attention-config.backend"}),
        (("--invented-in-2027=1",), set()),
    ],
)
def test_every_spelling_of_an_option_is_refused(words: tuple[str, ...], expected: set[str]) -> None:
    assert refused(*words) == expected


@each_row(
    ("name", "value", "is_refused"),
    [
        ("LD_PRELOAD", "/x.so", True),
        ("PYTHONPATH", None, True),
        ("PYTHONSTARTUP", "/x.py", True),
        ("LD_LIBRARY_PATH", "/tmp", True),
        ("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64:/usr/local/cuda/lib64", False),
        ("VLLM_PLUGINS", "mine", False),
        ("VLLM_SERVER_DEV_MODE", "1", True),
        ("VLLM_SERVER_DEV_MODE", "0", False),
        ("VLLM_SERVER_DEV_MODE", None, True),
        ("VLLM_LOGGING_STREAM", "ext://os.environ", True),
        ("VLLM_LOGGING_STREAM", "ext://sys.stdout", False),
        ("CUDA_VISIBLE_DEVICES", "0,1", True),
        ("NVIDIA_VISIBLE_DEVICES", "all", False),
        ("NCCL_DEBUG", "INFO", False),
        ("NCCL_NET_PLUGIN", "/x.so", True),
        ("ANYTHING_ELSE", "1", False),
    ],
)
def test_variables_are_refused_by_name_and_value(name: str, value: str | None, is_refused: bool) -> None:
    assert (refused_options.variable(name, value) is not None) is is_refused


@each_row("value", [{}, {"a": {}}, [], "", None, True, 1e999, "[" * 10_000, {"": ""}, {"a.b": "\n"}])
def test_no_value_makes_an_error(value: Any) -> None:
    for name in ("compilation-config", "hf-overrides", "allowed-local-media-path", ""):
        assert all(verdict.why for _, verdict in refused_options.option(name, value))
