"""Feed every profile and every typed flag to the real parser and configuration classes of a release of vLLM.

Run in an environment of its own for each release, from the repository's root (`make vllm-check` does both for both):

    python3 -m venv .venv-vllm-0.33
    .venv-vllm-0.33/bin/pip install --no-deps -r tests/vllm/0.33.0.txt
    .venv-vllm-0.33/bin/python -m tests.vllm.check_parser

It needs 8 to 9 GB of disk for each and no GPU. A profile is judged where it holds for the release. The last line is `N passed, N failed`;
exit 1 when something failed, 2 without vLLM.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import io
import sys
import tempfile
import traceback
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from facts import parsers
from facts.engines import LONGEST_CONTEXT_TOKENS, LONGEST_YARN_TOKENS, VERSIONS, find, mistakes, parse
from facts.machines import A100_80GB, B200, H100, L4, Gpu
from facts.memory import FOUR_BIT_CACHE, GIB, CacheLayout, adapter_slots_gib, attention_block_tokens, kv_bytes_per_token
from facts.model_config import from_config
from facts.models import CATALOGUE
from facts.releases import CURRENT
from fleet.batch.requests import CHAT, COMPLETIONS, FIELDS, RANGES
from settings.profiles import NAMES, profile
from settings.sections.engine import ENVIRONMENT, Engine, Speculative, Yarn, flag_fields, long_name, option_value
from settings.sections.model import AdapterRank
from settings.shaped_engine import shaped
from tests.vllm.stand_in import ARCHITECTURE, pretend_b200, write_model
from workloads.server.rank_servers import command_of, role_of
from workloads.server.vllm_args import COMMAND, args, env, writable_environment

PARSERS: dict[str, parsers.Kind] = {"reasoning_parser": "reasoning", "tool_call_parser": "tools"}
Check = tuple[str, Callable[[], None]]
NAME = "served-by-this-name"
ADAPTERS = {name: f"/weights/adapters/{name}/team/{name}-lora" for name in ("support", "sales")}
DATA = Path(__file__).parents[2] / "facts" / "data"
"""Where the tables of options are, by which the lessons read servers that somebody else wrote."""
VARIABLES = Path(__file__).parent
"""Where the variables of each release are; tests/facts/test_refused_options.py reads them."""

FOUR_BITS_SINCE = (0, 33, 0)
"""Of the releases checked here, the first with a 4-bit cache."""
LINEAR_ADAPTERS_SINCE = (0, 33, 0)
"""Of the releases checked here, the first that loads adapters into the linear layers of Qwen3.5."""
DENSE_RANKS_REFUSED_SINCE = (0, 33, 0)
"""Of the releases checked here, the first that serves no rank of a dense model apart."""
ROPE = {name: value for name, value in ARCHITECTURE["text_config"]["rope_parameters"].items() if name != "rope_type"}
"""What YaRN must leave of the model's rotary embedding."""
ADDED: dict[str, Any] = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": LONGEST_CONTEXT_TOKENS,
}


class RefusedError(Exception):
    """The real parser exited."""


def report(checks: Iterable[Check], write: Callable[[str], object]) -> int:
    """Run the checks, tell each failure and the closing line. Returns the exit code."""
    passed, failed = 0, 0
    for name, check in checks:
        try:
            check()
        except Exception as error:
            failed += 1
            where = "" if isinstance(error, AssertionError | RefusedError) else f"\n{traceback.format_exc()}"
            write(f"FAILED {name}: {error}{where}")
        else:
            passed += 1
    write(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


class Vllm:
    """vLLM's own `serve` parser and configuration, on the stand-in node."""

    def __init__(self, model: Path) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.entrypoints.cli.serve import ServeSubcommand

        try:
            from vllm.entrypoints.openai.cli_args import make_arg_parser
        except ImportError:  # moved by 0.33
            from vllm.entrypoints.common.cli_args import make_arg_parser
        from vllm.usage.usage_lib import UsageContext
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        self.model = str(model)
        self.release = find(importlib.metadata.version("vllm"))
        self._arguments = AsyncEngineArgs
        self._context = UsageContext.OPENAI_API_SERVER
        self._serve = ServeSubcommand()
        self._parser = FlexibleArgumentParser()
        self._serve.subparser_init(self._parser.add_subparsers(dest="subparser"))
        self._module = make_arg_parser(FlexibleArgumentParser())

    def parse(self, arguments: list[str]) -> Any:
        """The parsed namespace. Raises RefusedError with what the parser printed."""
        printed = io.StringIO()
        try:
            with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
                found = self._parser.parse_args(["serve", *arguments])
                self._serve.validate(found)
        except SystemExit:
            raise RefusedError(printed.getvalue().strip().splitlines()[-1]) from None
        # As ServeSubcommand.cmd does before it starts anything.
        found.model = found.model_tag or found.model
        return found

    def options(self) -> str:
        """Every long option with its kind, other spellings and choices, as `facts.releases` reads them."""
        version = self.release.version
        lines = [
            f"# Long options of vLLM's server in {version}: name, kind (switch, list, value, or int, count, number, json),",
            "# short forms, --other names, !names that switch it off, =choices. "
            f"Source: the argument parser of vLLM {version} itself. `-O` is read apart.",
        ]
        for action in sorted((one for one in self._module._actions if one.option_strings), key=_first_option):
            name, *others = [text[2:] for text in action.option_strings if text[:2] == "--" and text[:5] != "--no-"]
            short = [text[1:] for text in action.option_strings if text[:2] != "--"]
            kind = _KINDS.get(type(action).__name__, "list" if action.nargs == "+" else _kind(action))
            off = type(action).__name__ == "EnableDisableAction"
            other = [f"!{text}" if off and _other_side(name) == text else f"--{text}" for text in others]
            choices = sorted(str(one) for one in action.choices or () if one is not None and kind == "value")
            lines.append(" ".join([name, kind, *short, *other, *([f"={','.join(choices)}"] if choices else [])]))
        return "\n".join(lines) + "\n"

    def batch_defaults(self) -> Any:
        """Batched tokens and sequences by use, of one GPU."""
        return self._arguments.get_batch_defaults(1)

    def configure(self, engine: Engine) -> Any:
        """The engine configuration that these flags resolve to on eight B200."""
        parsed = self.parse(args(engine, model_path=self.model, served_model_name=NAME))
        return self.resolve(parsed)

    def resolve(self, parsed: Any) -> Any:
        """The engine configuration of a parsed namespace."""
        return self._arguments.from_cli_args(parsed).create_engine_config(usage_context=self._context)


def checks(vllm: Vllm) -> Iterator[Check]:
    """Every check, by name."""
    version = vllm.release.version
    yield "no compiled module belongs to two packages", _own_modules
    for name in [name for name in NAMES if any(find(one).table == version for one in profile(name).versions)]:
        yield f"profile {name} parses into its own values", partial(_parses, vllm, _on(name, version))
        if profile(name).model is not None:
            yield f"profile {name} makes an engine", partial(_configures, vllm, _on(name, version))
    for field in flag_fields():
        for value in samples(field, version):
            engine = Engine.model_validate({field: value, "version": version})
            if _refused(engine):
                parsing = partial(_must_raise, partial(_parses, vllm, engine))
                yield f"{field}={value!r} is refused by the parser, as the table says", parsing
            else:
                yield f"{field}={value!r} parses", partial(_parses, vllm, engine)
    table = DATA / f"vllm-{version}-options.txt"
    yield "the table of options is the parser's own", lambda: _equal(table.read_text(), vllm.options())
    for gpu in (B200, H100, A100_80GB, L4):
        yield f"defaults on {gpu.name}", partial(_defaults, vllm, gpu)
    yield "parsers of reasoning and tools are registered", _registered
    yield "environment variables are known to vLLM", _known_variables
    yield "the list of variables is vLLM's own", partial(_all_variables, version)
    with_slots = {"extraArgs": ("--enable-lora", f"--max-loras={len(ADAPTERS)}", "--max-lora-rank=32")}
    yield "adapters beside drafts make an engine", partial(_adapters, vllm, _on("record", version).but(with_slots))
    yield "ranks of adapters are vLLM's own", _adapter_ranks
    for ranks in (1, 2):
        yield f"slots of adapters on one of {ranks} GPUs have the size that vLLM allocates", partial(_slots, ranks)
        yield f"slots of experts' adapters on one of {ranks} GPUs have that size, too", partial(_expert_slots, ranks)
    if find(version).number >= LINEAR_ADAPTERS_SINCE:
        yield "an adapter of Qwen3.5's linear layers is loaded", _loads_a_linear_adapter
    else:
        cannot = partial(_must_raise, _loads_a_linear_adapter, (RuntimeError,))
        yield "an adapter of Qwen3.5's linear layers is not loaded, as adapters-on-old-release says", cannot
    yield "YaRN reaches the model's rotary embedding, and with it the context", partial(_extends, vllm)
    if find(version).number >= FOUR_BITS_SINCE:
        yield "a 4-bit cache makes an engine of as many bytes as counted", partial(_holds_four_bits, vllm)
    yield "the command of one rank parses", partial(_parses_ranks, vllm)
    if find(version).number >= DENSE_RANKS_REFUSED_SINCE:
        external = partial(_external_rank, vllm)
        yield (
            "a rank of a dense model has no external balancer, as decision 7 says",
            partial(_must_raise, external, (ValueError,)),
        )
        yield "the servers of a split pod make engines of their roles", partial(_splits, vllm)
    if version == CURRENT:
        yield "fields of a batch's requests are vLLM's", _knows_the_fields_of_a_batch
        for field in RANGES:
            yield f"{field} of a batch's requests has vLLM's range", partial(_has_the_range_of_a_batch, field)
    yield from _refusals(vllm)


def _rank(vllm: Vllm, *, experts: bool) -> Any:
    """The fourth of eight ranks, as rank_servers.py starts it."""
    engine = _on("record", vllm.release.version)
    words = [*COMMAND, *args(engine, model_path=vllm.model, served_model_name=NAME)]
    return vllm.parse(command_of(3, engine.data_parallel_size, words, experts)[2:])


def _parses_ranks(vllm: Vllm) -> None:
    alone, together = (_rank(vllm, experts=experts) for experts in (False, True))
    _equal((alone.port, alone.data_parallel_size, alone.data_parallel_rank), (8003, 1, None))
    _equal((together.port, together.data_parallel_size, together.data_parallel_rank), (8003, 8, 3))


def _splits(vllm: Vllm) -> None:
    """The first and the last server of a split pod, as rank_servers.py starts them: each makes an engine of its role."""
    engine = shaped(_on("tuned", vllm.release.version), CATALOGUE["Qwen/Qwen3.5-27B-FP8"].shape)
    words = [
        *COMMAND,
        *args(engine, model_path=vllm.model, served_model_name=NAME, port=8001),
        "--host=127.0.0.1",
    ]
    for rank, port, role in ((0, 8001, "kv_producer"), (7, 8008, "kv_consumer")):
        found = vllm.parse(command_of(rank, 8, words, False, role_of(rank, 3))[2:])
        _equal((found.host, found.port, found.data_parallel_size), ("127.0.0.1", port, 1))
        transfer = vllm.resolve(found).kv_transfer_config
        _equal((transfer.kv_connector, transfer.kv_role), ("NixlConnector", role))
        _equal((transfer.kv_load_failure_policy, transfer.is_kv_transfer_instance), ("recompute", True))


def _knows_the_fields_of_a_batch() -> None:
    """vLLM ignores a field that it does not know, and the plan would count what no server does."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest

    for url, request in ((CHAT, ChatCompletionRequest), (COMPLETIONS, CompletionRequest)):
        _equal(FIELDS[url] - set(request.model_fields), frozenset())


def _has_the_range_of_a_batch(name: str) -> None:
    """The ends of a range are served, and what lies beyond is refused."""
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError

    range_ = RANGES[name]
    step = 1 if range_.is_whole else 0.01
    low = range_.least + step * (range_.above >= range_.least)
    for value in (low, range_.most if range_.most < inf else low + 100):
        SamplingParams(max_tokens=1_000, **{name: int(value) if range_.is_whole else value})
    below = range_.least - step * (range_.above < range_.least)
    for value in (below, *([range_.most + step] if range_.most < inf else [])):
        refused = partial(SamplingParams, **{name: int(value) if range_.is_whole else value})
        _must_raise(refused, (VLLMValidationError,))


def _external_rank(vllm: Vllm) -> None:
    vllm.resolve(_rank(vllm, experts=True))


def _own_modules() -> None:
    """An installer unpacks packages side by side: of two that bring one module, whichever ends last wins, another one each time."""
    owners: dict[str, set[str]] = {}
    for package in importlib.metadata.distributions():
        for file in package.files or ():
            if file.suffix == ".so":
                owners.setdefault(str(file), set()).add(package.name)
    assert not (shared := {file: names for file, names in owners.items() if len(names) > 1}), shared


_KINDS = dict.fromkeys(("BooleanOptionalAction", "EnableDisableAction", "_StoreTrueAction", "_HelpAction"), "switch")


def _kind(action: argparse.Action) -> str:
    """The kind of value that an option accepts, by trying some."""

    def takes(text: str) -> bool:
        try:
            action.type(text) if callable(action.type) else None
        except (ValueError, TypeError, argparse.ArgumentTypeError):
            return False
        return True

    if action.choices or takes("abc"):
        return "value"
    if takes('["a"]') or takes("{}") or not takes("1024"):
        return "json"
    return "number" if takes("1.5") else "count" if takes("2k") else "int"


def _other_side(name: str) -> str:
    """The name that switches an option off from 0.33 on: `disable-x` for `enable-x`."""
    side, dash, rest = name.partition("-")
    return {"enable": "disable", "disable": "enable"}.get(side, "no") + dash + rest


def _on(name: str, version: str) -> Engine:
    """A profile's engine on a release."""
    return profile(name).engine.but({"version": version})


def _refused(engine: Engine) -> bool:
    words = args(engine, model_path="m", served_model_name=NAME)
    return bool(mistakes(parse(words), find(engine.version)))


def _defaults(vllm: Vllm, gpu: Gpu) -> None:
    import vllm.platforms as platforms
    from vllm.usage.usage_lib import UsageContext

    told = {"get_device_name": f"NVIDIA {gpu.name}", "get_device_total_memory": int(gpu.memory_gib * 2**30)}
    with contextlib.ExitStack() as undo:
        for question, answer in told.items():
            platform = platforms._current_platform
            undo.callback(setattr, platform, question, getattr(platform, question))
            setattr(platform, question, lambda *_, answer=answer, **__: answer)
        tokens, sequences = vllm.batch_defaults()
    context = UsageContext.OPENAI_API_SERVER
    _equal((tokens[context], sequences[context]), (vllm.release.batched_tokens(gpu), vllm.release.sequences(gpu)))


def _first_option(action: argparse.Action) -> str:
    return action.option_strings[0]


_SAMPLES: dict[type, tuple[Any, ...]] = {bool: (True, False), int: (1,), float: (0.5,), str: ("a/model",)}


def samples(field: str, version: str) -> tuple[Any, ...]:
    """Values to try a field with: every choice, both states of a switch, a number within range."""
    if field == "speculative":
        return tuple(Speculative(method=method, num_speculative_tokens=2) for method in ("mtp", "ngram", "suffix"))
    if field == "yarn":
        return (Yarn(factor=4.0), Yarn(factor=1.5))
    if field in PARSERS:
        return tuple(sorted(parsers.registered(PARSERS[field], version) or ()))
    annotation = typing.get_type_hints(Engine, include_extras=False)[field]
    kinds = set(typing.get_args(annotation) or (annotation,)) - {type(None)}
    found: list[Any] = []
    for kind in kinds:
        choices = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
        found += choices or _SAMPLES[kind]
    return tuple(sorted(found, key=str))


def _parses(vllm: Vllm, engine: Engine) -> None:
    parsed = vllm.parse(args(engine, model_path=vllm.model, served_model_name=NAME))
    _equal(parsed.model, vllm.model)
    _equal(parsed.served_model_name, [engine.served_model_name or NAME])
    for field in flag_fields():
        value = getattr(engine, field)
        if value is None or field == "served_model_name":
            continue
        value = option_value(field, value)
        found = getattr(parsed, long_name(field).replace("-", "_"))
        # -O3 leaves the text "3", which the configuration turns into a number.
        _equal(int(found) if field == "optimization_level" else found, value, field)
    _equal(parsed.enable_auto_tool_choice, engine.tool_call_parser is not None)


def _configures(vllm: Vllm, engine: Engine) -> None:
    config = vllm.configure(engine)
    cache, scheduler, parallel = config.cache_config, config.scheduler_config, config.parallel_config
    _equal(parallel.data_parallel_size, engine.data_parallel_size, "data parallel")
    _equal(parallel.tensor_parallel_size, engine.tensor_parallel_size, "tensor parallel")
    _equal(config.model_config.max_model_len, engine.max_model_len, "context")
    release = engine.release
    _equal(scheduler.max_num_seqs, engine.max_num_seqs or release.sequences(B200), "sequences")
    _equal(
        scheduler.max_num_batched_tokens,
        engine.max_num_batched_tokens or release.batched_tokens(B200),
        "batched tokens",
    )
    _equal(scheduler.async_scheduling, True, "asynchronous scheduling")
    _equal(cache.gpu_memory_utilization, engine.gpu_memory_share, "share of GPU memory")
    by_itself = engine.release.has("caches-prefixes-of-hybrids")
    caching = by_itself if engine.enable_prefix_caching is None else engine.enable_prefix_caching
    _equal(cache.enable_prefix_caching, caching, "prefix caching")
    _equal(cache.mamba_cache_mode, engine.mamba_cache_mode or ("align" if caching else "none"), "mamba cache mode")
    _equal(str(config.quant_config.get_name()), "fp8", "quantization")
    speculative = config.speculative_config
    _equal(speculative.num_speculative_tokens if speculative else 0, engine.speculative_tokens, "draft tokens")
    _equal(int(config.optimization_level), 2 if engine.optimization_level is None else engine.optimization_level, "-O")
    step = 1 + engine.speculative_tokens
    most = release.captured_tokens(B200)
    captured = engine.max_cudagraph_capture_size or min(2 * scheduler.max_num_seqs * step, most)
    _equal(config.compilation_config.max_cudagraph_capture_size, captured, "captured graphs")
    # From 0.33 on the block is chosen when the workers start, after the configuration.
    if engine.tensor_parallel_size == 1 and engine.version == "0.18.1":
        layout = CacheLayout(
            kv_cache_dtype=engine.kv_cache_dtype or "auto",
            speculative_tokens=engine.speculative_tokens,
            prefix_caching=engine.enable_prefix_caching is True,
        )
        _equal(cache.block_size, attention_block_tokens(layout), "attention block, as the planner computes it")


def _adapters(vllm: Vllm, engine: Engine) -> None:
    words = args(engine, model_path=vllm.model, served_model_name=NAME, adapter_paths=ADAPTERS)
    _equal({module.name: module.path for module in vllm.parse(words).lora_modules}, ADAPTERS)
    config = vllm.configure(engine)
    _equal((config.lora_config.max_loras, config.lora_config.max_lora_rank), (len(ADAPTERS), 32), "slots")
    _equal(config.speculative_config.num_speculative_tokens, engine.speculative_tokens, "draft tokens")


def _adapter_ranks() -> None:
    from vllm.config.lora import MaxLoRARanks

    _equal(typing.get_args(MaxLoRARanks), typing.get_args(AdapterRank))


def _slots(ranks: int) -> None:
    """The bytes of one GPU's slots for a dense model, by the code that allocates them, without memory."""
    from torch import bfloat16
    from vllm.config.lora import LoRAConfig
    from vllm.lora import layers
    from vllm.model_executor.layers.linear import RowParallelLinear

    hidden, inner, heads, kv_heads, size, vocabulary, depth = 256, 512, 8, 4, 32, 1_024, 3
    chosen = LoRAConfig(max_loras=3, max_lora_rank=32, lora_dtype=bfloat16)

    def allocated(kind: Any, **fields: Any) -> int:
        layer = SimpleNamespace(device="meta", tp_size=ranks, lora_config=chosen, **fields)
        kind.create_lora_weights(layer, 3, chosen, SimpleNamespace())
        stacks = (layer.lora_a_stacked, layer.lora_b_stacked)
        tensors = [tensor for stack in stacks for tensor in (stack if isinstance(stack, tuple) else (stack,))]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def row(width: int) -> int:
        base = RowParallelLinear.__new__(RowParallelLinear)
        fields = {"base_layer": base, "n_slices": 1, "input_size": width // ranks, "output_size": hidden}
        return allocated(layers.RowParallelLinearWithLoRA, **fields)

    def column(*widths: int) -> int:
        slices = tuple(width // ranks for width in widths)
        fields = {"n_slices": len(slices), "output_slices": slices, "input_size": hidden}
        return allocated(layers.MergedColumnParallelLinearWithLoRA, **fields)

    table = SimpleNamespace(
        vocab_size=vocabulary,
        org_vocab_size=vocabulary,
        embedding_dim=hidden,
        num_added_embeddings_per_partition=0,
        weight=SimpleNamespace(device="meta"),
    )
    tables = allocated(layers.VocabParallelEmbeddingWithLoRA, base_layer=table)
    tables += allocated(
        layers.LogitsProcessorWithLoRA, base_layer=table, hidden_size=hidden, sharded_to_full_mapping=None
    )
    block = (
        column(heads * size, kv_heads * size, kv_heads * size) + row(heads * size) + column(inner, inner) + row(inner)
    )
    config = {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocabulary,
        "num_hidden_layers": depth,
        "max_position_embeddings": 1_024,
    }
    widths = from_config(config, "small").adapter_widths
    _equal(adapter_slots_gib(widths, slots=3, rank=32, ranks=ranks) * GIB, tables + depth * block)


def _expert_slots(ranks: int) -> None:
    """The bytes that more experts add to one GPU's slots, by the code that allocates them, without memory."""
    from torch import bfloat16
    from vllm.config.lora import LoRAConfig
    from vllm.lora.layers import FusedMoEWithLoRA

    hidden, inner, experts = 256, 64, 8
    chosen = LoRAConfig(max_loras=3, max_lora_rank=32, lora_dtype=bfloat16)
    base = {"local_num_experts": experts, "hidden_size": hidden, "intermediate_size_per_partition": inner // ranks}
    # 0.18.1 reads them from the layer below, 0.33.0 from itself.
    own = base | {"_w13_a_num_experts": experts, "_w2_b_num_experts": experts, "_w13_slices": 2, "fully_sharded": False}
    layer = SimpleNamespace(device="meta", base_layer=SimpleNamespace(**base), **own)
    FusedMoEWithLoRA._create_lora_a_weights(layer, 3, chosen)
    FusedMoEWithLoRA._create_lora_b_weights(layer, 3, chosen)
    stacks = [tensors for name, tensors in vars(layer).items() if name.endswith("_stacked")]
    allocated = sum(tensor.numel() * tensor.element_size() for tensors in stacks for tensor in tensors)

    def slots(count: int) -> float:
        config = {
            "model_type": "qwen3_moe",
            "hidden_size": hidden,
            "moe_intermediate_size": inner,
            "num_attention_heads": 8,
            "vocab_size": 1_024,
            "num_hidden_layers": 1,
            "max_position_embeddings": 1_024,
            "num_experts": count,
            "num_experts_per_tok": 1,
        }
        return adapter_slots_gib(from_config(config, "small").adapter_widths, slots=3, rank=32, ranks=ranks) * GIB

    router = 3 * 32 * experts * 2
    _equal(round(slots(2 * experts) - slots(experts) - router), allocated)


def _loads_a_linear_adapter() -> None:
    """An adapter's matrices for in_proj_qkvz, by the model's own names, in vLLM's own layer with the model's slices: q, k, v, z."""
    from torch import bfloat16, ones
    from vllm.config.lora import LoRAConfig
    from vllm.lora.layers import MergedColumnParallelLinearWithLoRA
    from vllm.model_executor.models.qwen3_5 import Qwen3_5ForConditionalGeneration

    rank, hidden, slices = 8, 64, (16, 16, 32, 32)
    chosen = LoRAConfig(max_loras=1, max_lora_rank=rank, lora_dtype=bfloat16)
    layer = MergedColumnParallelLinearWithLoRA.__new__(MergedColumnParallelLinearWithLoRA)
    fields = {"device": "cpu", "tp_size": 1, "n_slices": len(slices), "input_size": hidden}
    vars(layer).update(fields, output_sizes=list(slices), output_slices=slices)
    layer.create_lora_weights(1, chosen)
    rows = {"in_proj_qkv": sum(slices[:3]), "in_proj_z": slices[3]}
    named = Qwen3_5ForConditionalGeneration.packed_modules_mapping["in_proj_qkvz"]
    inputs = [ones(rank, hidden, dtype=bfloat16) for _ in named]
    layer.set_lora(0, inputs, [ones(rows[name], rank, dtype=bfloat16) for name in named])
    _equal([int(stack.sum()) for stack in layer.lora_b_stacked], [size * rank for size in slices], "slices")


def _extends(vllm: Vllm) -> None:
    yarn = Yarn(factor=4.0)
    extended = {"maxModelLen": yarn.longest_context_tokens, "yarn": {"factor": yarn.factor}}
    config = vllm.configure(_on("tuned", vllm.release.version).but(extended)).model_config
    _equal(config.max_model_len, LONGEST_YARN_TOKENS, "context")
    kept = {name: config.hf_text_config.rope_parameters[name] for name in ROPE | ADDED}
    _equal(kept, ROPE | ADDED, "rotary embedding")


def _holds_four_bits(vllm: Vllm) -> None:
    from vllm.utils.torch_utils import nvfp4_kv_cache_full_dim

    config = vllm.configure(_on("tuned", vllm.release.version).but({"kvCacheDtype": FOUR_BIT_CACHE}))
    _equal(config.cache_config.cache_dtype, FOUR_BIT_CACHE, "cache")
    model = config.model_config
    heads = model.get_num_kv_heads(config.parallel_config)
    each = 2 * heads * nvfp4_kv_cache_full_dim(model.get_head_size())
    _equal(each, kv_bytes_per_token(CacheLayout(kv_cache_dtype=FOUR_BIT_CACHE)), "bytes per token and layer")


def _registered() -> None:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    for field, registry in (("reasoning_parser", ReasoningParserManager), ("tool_call_parser", ToolParserManager)):
        _equal(sorted(registry.list_registered()), list(samples(field, importlib.metadata.version("vllm"))), field)


def _known_variables() -> None:
    import vllm.envs

    ours = {
        entry["name"] for name in NAMES for entry in env(profile(name).engine, ready_timeout_seconds=1, offline=True)
    }
    ours |= {entry["name"] for entry in writable_environment("/cache")} | set(ENVIRONMENT.values())
    _equal({name for name in ours if name.startswith("VLLM_")} - set(vllm.envs.environment_variables), set())


def _all_variables(version: str) -> None:
    import vllm.envs

    listed = (VARIABLES / f"{version}-variables.txt").read_text(encoding="utf-8").split()
    _equal(sorted(vllm.envs.environment_variables), listed)


def _refusals(vllm: Vllm) -> Iterator[Check]:
    """What must fail: a check that accepts everything would pass everything."""
    for flag in (
        "--enable-prefix-caching=true",
        "--max-num-seqs=many",
        "--performance-mode=fast",
        "--speculative-config={'method':'mtp'}",
        "--speculative-model=draft",
    ):
        yield f"{flag} is refused by the parser", partial(_must_raise, partial(vllm.parse, [vllm.model, flag]))
    record = _on("record", vllm.release.version)
    for title, changes in (
        ("a mamba block size without prefix caching", {"enablePrefixCaching": False, "mambaCacheMode": None}),
        ("more sequences than batched tokens", {"maxNumSeqs": 8_192, "maxNumBatchedTokens": 4_096}),
        ("expert parallelism for a dense model", {"enableExpertParallel": True}),
        ("a context beyond the model's without YaRN", {"maxModelLen": LONGEST_CONTEXT_TOKENS + 1}),
        ("a context beyond YaRN's", {"maxModelLen": LONGEST_YARN_TOKENS, "yarn": {"factor": 2.0}}),
    ):
        engine = record.but(changes)
        yield f"{title} is refused by the engine", partial(_must_raise, partial(vllm.configure, engine))


def _must_raise(action: Callable[[], object], errors: tuple[type[Exception], ...] = (RefusedError, ValueError)) -> None:
    try:
        action()
    except errors:
        return
    raise AssertionError("vLLM accepted it")


def _equal(found: object, expected: object, what: str = "value") -> None:
    if found != expected:
        raise AssertionError(f"{what}: vLLM has {found!r}, expected {expected!r}")


def _line(text: str, to: typing.TextIO | None = None) -> None:
    (to or sys.stdout).write(f"{text}\n")


def run(checks: Callable[[], Iterable[Check]]) -> int:
    """Run every check on the stand-in node. 2 without vLLM."""
    if importlib.util.find_spec("vllm") is None:
        _line(f"vLLM is not installed here: pip install --no-deps -r tests/vllm/{VERSIONS[-1]}.txt", sys.stderr)
        return 2
    pretend_b200()
    return report(checks(), _line)


def _with_a_model() -> Iterator[Check]:
    with tempfile.TemporaryDirectory() as folder:
        yield from checks(Vllm(write_model(Path(folder) / "model")))


if __name__ == "__main__":
    sys.exit(run(_with_a_model))
