"""The classes of options and variables: complete over both releases, and of every spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from facts import judged
from facts.engines import find, parse
from tests.support.rows import each_row

RELEASES = ("0.18.1", "0.33.0")
FILE = Path("facts/data/vllm-judged.txt")


def variables(version: str) -> list[str]:
    return Path(f"tests/vllm/{version}-variables.txt").read_text(encoding="utf-8").split()


def entries() -> list[str]:
    return [
        entry for line in FILE.read_text(encoding="utf-8").splitlines() if line[:1] == " " for entry in line.split()
    ]


def test_every_option_and_variable_of_both_releases_has_one_class() -> None:
    every = {name for version in RELEASES for name in (*find(version).options.kinds, *variables(version))}
    assert every - judged.names() == set()
    names = [one for entry in entries() for name, _, values in [entry.partition("=")] for one in (
        [f"{name}={value}" for value in values.split(",")] if values else [name])]  # fmt: skip
    assert len(names) == len(set(names))


def test_every_option_with_a_class_is_one_of_a_release() -> None:
    options = {entry.partition("=")[0].partition(".")[0] for entry in entries() if not entry[0].isupper()}
    known = {name for version in RELEASES for name in find(version).options.kinds}
    assert {one for one in options if "_" not in one} <= known


def test_every_refusal_says_what_to_write_and_every_class_why() -> None:
    for name in judged.names():
        verdict = judged.variable(name, "x") if name[0].isupper() else next(judged.option(name, "x"))[1]
        assert verdict.why
        assert bool(verdict.write) is (verdict.trust == "refused")


def classes(*words: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse(words).options.items():
        found |= {part: verdict.trust for part, verdict in judged.option(name, value)}
    return found


@each_row(
    ("words", "expected"),
    [
        (("--trust-remote-code",), {"trust-remote-code": "reason"}),
        (("--trust_remote_code",), {"trust-remote-code": "reason"}),
        (("--trust-rem",), {"trust-remote-code": "reason"}),
        (("--no-trust-remote-code",), {}),
        (("--trust-remote-code", "--no-trust-remote-code"), {}),
        (("--worker_cls=x.Y",), {"worker-cls": "refused"}),
        (("--worker-ext", "x.Y"), {"worker-extension-cls": "refused"}),
        (("--middleware", "x.Y"), {"middleware": "refused"}),
        (("-n", "2"), {"nnodes": "refused"}),
        (("-n2",), {"nnodes": "refused"}),
        (("--nnodes=1",), {"nnodes": "harmless"}),
        (("--config", "/f.yaml"), {"config": "refused"}),
        (("-sc.model=x/y",), {"speculative-config.model": "reason"}),
        (("--speculative-config", '{"method": "mtp"}'), {"speculative-config.method": "harmless"}),
        (("--speculative-config.method=custom_class",), {"speculative-config.method": "refused"}),
        (("-cc.backend=x.y",), {"compilation-config.backend": "refused"}),
        (("-cc", '{"backend": "inductor", "mode": 3}'), {
            "compilation-config.backend": "harmless", "compilation-config.mode": "harmless"}),
        (("--compilation-config.backend=x.y", "--compilation-config={}"), {"compilation-config.backend": "refused"}),
        (("--compilation-config.inductor_passes.p=x.y",), {"compilation-config.inductor_passes.p": "refused"}),
        (("--compilation-config.new=1",), {"compilation-config.new": "reason"}),
        (('--kv-transfer-config={"kv_connector_module_path":"x"}',), {
            "kv-transfer-config.kv_connector_module_path": "refused"}),
        (("--structured-outputs-config.reasoning_parser_plugin=/x.py",), {
            "structured-outputs-config.reasoning_parser_plugin": "refused"}),
        (("--hf-overrides.auto_map.AutoModel=x.Y",), {"hf-overrides.auto_map.AutoModel": "refused"}),
        (('--hf-overrides={"text_config":{"rope_parameters":{"factor":2.0},"architectures":"x"}}',), {
            "hf-overrides.text_config.rope_parameters.factor": "harmless",
            "hf-overrides.text_config.architectures": "reason"}),
        (("--allowed-local-media-path=/",), {"allowed-local-media-path": "refused"}),
        (("--allowed-local-media-path=//",), {"allowed-local-media-path": "refused"}),
        (("--allowed-local-media-path=/media/../",), {"allowed-local-media-path": "refused"}),
        (("--allowed-local-media-path=/media",), {"allowed-local-media-path": "reason"}),
        (('--allowed-origins=["*"]',), {"allowed-origins": "reason"}),
        (("--allowed-origins=[]",), {"allowed-origins": "harmless"}),
        (("--runner=pooling",), {"runner": "refused"}),
        (("--runner=auto",), {"runner": "harmless"}),
        (("--load-format=my_plugin",), {"load-format": "reason"}),
        (("--load-format.x=auto",), {"load-format.x": "reason"}),
        (("--attention-config.backend=TRITON_ATTN",), {"attention-config.backend": "refused"}),
        (("-O3",), {"optimization-level": "harmless"}),
        (("--max-logprobs=-1",), {"max-logprobs": "reason"}),
        (("--invented-in-2027=1",), {"invented-in-2027": "unknown"}),
    ],
)  # fmt: skip
def test_every_spelling_of_an_option_has_its_class(words: tuple[str, ...], expected: dict[str, str]) -> None:
    assert classes(*words) == expected


@each_row(
    ("name", "value", "expected"),
    [
        ("LD_PRELOAD", "/x.so", "refused"),
        ("PYTHONPATH", None, "refused"),
        ("PYTHONSTARTUP", "/x.py", "refused"),
        ("LD_LIBRARY_PATH", "/tmp", "refused"),
        ("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64:/usr/local/cuda/lib64", "harmless"),
        ("VLLM_PLUGINS", "mine", "reason"),
        ("VLLM_PLUGINS", "", "harmless"),
        ("VLLM_SERVER_DEV_MODE", "1", "refused"),
        ("VLLM_SERVER_DEV_MODE", "0", "harmless"),
        ("VLLM_SERVER_DEV_MODE", None, "refused"),
        ("HF_ENDPOINT", "https://example.com", "reason"),
        ("http_proxy", "http://proxy:3128", "reason"),
        ("HTTPS_PROXY", "http://proxy:3128", "reason"),
        ("all_proxy", "socks5://proxy", "reason"),
        ("NO_PROXY", "10.0.0.0/8", "harmless"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://x:4317", "reason"),
        ("VLLM_LOGGING_LEVEL", "debug", "reason"),
        ("VLLM_LOGGING_LEVEL", "WARNING", "harmless"),
        ("VLLM_LOGGING_STREAM", "ext://os.environ", "refused"),
        ("VLLM_HTTP_MAX_REQUEST_BODY_SIZE", "0", "reason"),
        ("VLLM_NO_USAGE_STATS", "0", "reason"),
        ("NCCL_DEBUG", "INFO", "harmless"),
        ("UCX_TLS", "rc,cuda_copy", "harmless"),
        ("NCCL_NET_PLUGIN", "/x.so", "refused"),
        ("VLLM_INVENTED_IN_2027", "1", "unknown"),
        ("ANYTHING_ELSE", "1", "unknown"),
    ],
)
def test_variables_are_judged_by_name_and_value(name: str, value: str | None, expected: str) -> None:
    assert judged.variable(name, value).trust == expected


@each_row("value", [{}, {"a": {}}, [], "", None, True, 1e999, "[" * 10_000, {"": ""}, {"a.b": "\n"}])
def test_no_value_makes_an_error(value: Any) -> None:
    for name in ("compilation-config", "hf-overrides", "allowed-local-media-path", ""):
        assert all(verdict.why for _, verdict in judged.option(name, value))
