"""Checks of the engines: flags, environment, resolved cache settings, number of engines, cache size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from facts import memory, strict_json
from facts.engines import KEEP_ALIVE
from facts.lessons.serving_opened import OPENED
from facts.names import FIRST_ENGINE_PORT, HTTP_PORT
from facts.secrets_in_text import SECRET_TEXT, looks_secret
from facts.texts import plural
from fleet.plan.model.gpu_memory import DoesNotFitError
from fleet.verify import declared
from fleet.verify.checks_service import nobody
from fleet.verify.facts import Facts, Pod, Server
from fleet.verify.findings import Check, difference, format_where, judged, not_checked
from settings.sections.engine import ENVIRONMENT, Engine, effective_environment
from settings.sections.weights import MOUNT_PATH
from settings.server_arguments import server_arguments
from workloads.server import split, vllm_args

if TYPE_CHECKING:
    from facts.finding import Finding
    from settings.stack import Settings

INFO: Final = "vllm:cache_config_info"
RUNNING: Final = "vllm:num_requests_running"
_ADDED_BY_THE_POD: Final = frozenset({"--shutdown-timeout", "--revision"})
"""Flags that workloads/server/pod.py adds to the engine's."""
_LEFT_OUT: Final = "left out"
_VLLMS_OWN: Final = "VLLM_"
"""Prefix of vLLM's variables. Source: vLLM 0.18.1, envs.py."""


def flags(facts: Facts, settings: Settings) -> Check:
    """The pods' arguments, flag by flag."""
    title = "Flags of the pods"
    pods, why = _server_pods(facts)
    if not pods:
        return not_checked("flags", title, why)

    engine = settings.serving.engine
    model = settings.serving.model
    is_apart = settings.server.shape is not None
    declared_args = vllm_args.args(
        engine,
        model_path="",
        served_model_name=model.id,
        adapter_paths=model.adapter_paths(MOUNT_PATH),
        port=FIRST_ENGINE_PORT if is_apart else HTTP_PORT,
    )
    wanted = _parsed([*declared_args[1:], *([split.HOST] if is_apart else [])])
    differences: list[Finding] = []
    for pod in pods:
        given = _parsed(argument for argument in pod.args if not argument.startswith("--model="))
        for name in sorted(wanted.keys() | given.keys()):
            if (name in _ADDED_BY_THE_POD and name not in wanted) or name == "--model":
                continue
            if wanted.get(name) != given.get(name):
                differences.append(
                    difference(
                        pod.name,
                        name,
                        _format_flag(wanted, name),
                        _format_flag(given, name),
                    )
                )
    held = f"{plural(len(wanted), 'flag')} as declared on {format_where(pod.name for pod in pods)}"
    return judged("flags", title, differences, held=held, failed=_other_configuration(settings))


def environment(facts: Facts, settings: Settings) -> Check:
    """The engine's environment variables in the pods. Values are shown only for variables that the program declares."""
    title = "Environment of the pods"
    pods, why = _server_pods(facts)
    if not pods:
        return not_checked("environment", title, why)

    wanted: dict[str, str | None] = {**effective_environment(settings.serving.engine)}
    if (seconds := server_arguments(settings)["keep_alive_seconds"]) is not None:
        wanted.setdefault(KEEP_ALIVE, str(seconds))
    typed = set(ENVIRONMENT.values())
    # Set in every pod, irrelevant for speed.
    always = [*vllm_args.env(Engine(), ready_timeout_seconds=60, offline=True), *vllm_args.writable_environment("")]
    ignored = {one["name"] for one in always}
    differences: list[Finding] = []
    for pod in pods:
        # Only the program sets vLLM's variables; other undeclared ones may be the platform's.
        dangerous = pod.env.keys() & OPENED.keys()
        own = {name for name in pod.env if name.startswith(_VLLMS_OWN)}
        left = (own | dangerous) - wanted.keys() - ignored
        for name in sorted(wanted.keys() | left):
            found = pod.env.get(name)
            if name in wanted and name in pod.env and found == wanted[name]:
                continue
            differences.append(
                difference(
                    pod.name,
                    name,
                    _format_variable(wanted, name),
                    _format_variable(pod.env, name, may_show=name in wanted or name in typed),
                )
            )
    held = f"{plural(len(wanted), 'variable')} as declared on {format_where(pod.name for pod in pods)}"
    return judged("environment", title, differences, held=held, failed=_other_configuration(settings))


def _format_variable(env: Mapping[str, str | None], name: str, *, may_show: bool = True) -> str:
    if name not in env:
        return _LEFT_OUT
    value = env[name]
    if value is None:
        return "set by reference (valueFrom)"
    return (value or "empty") if may_show else "set"


def _server_pods(facts: Facts) -> tuple[list[Pod], str]:
    """Running server pods, or why there are none to check."""
    if facts.cluster is None:
        return [], facts.cluster_trouble
    return [pod for pod in facts.cluster.pods if pod.args and not pod.going], "no server pod"


def _other_configuration(settings: Settings) -> str:
    return f"the pods run another configuration: `pulumi up --stack {settings.stack}` was not run or did not finish"


def _parsed(arguments: Iterable[str]) -> dict[str, Any]:
    """Flags by name, JSON values parsed. Words that follow a flag are its values; those before the first are left out."""
    found: dict[str, Any] = {}
    name = ""
    for argument in arguments:
        if not argument.startswith("-"):
            if name:
                found[name] = argument if found[name] is True else f"{found[name]} {argument}"
            continue
        if argument.startswith("-O") and not argument.startswith("--"):
            found[name := "-O"] = argument[2:].lstrip("=")
            continue
        name, equals, value = argument.partition("=")
        if not equals:
            found[name] = True
        elif value.startswith("{"):
            try:
                found[name] = strict_json.loads(value)
            except ValueError:
                found[name] = value
        else:
            found[name] = value
    return found


def _format_flag(flags_: Mapping[str, Any], name: str) -> str:
    if name not in flags_:
        return _LEFT_OUT
    value = flags_[name]
    if looks_secret(name, value):
        return SECRET_TEXT
    return "given" if value is True else value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def configuration(facts: Facts, settings: Settings) -> Check:
    """The engines' resolved cache configuration against the stack file."""
    title = "Resolved engine configuration"
    servers, why = _with_info(facts)
    if not servers:
        return not_checked("configuration", title, why)
    wanted = _expected_labels(settings)
    differences: list[Finding] = []
    untold: set[str] = set()
    for server in servers:
        infos = _infos(server)
        for label, value in wanted.items():
            by_value: dict[str, list[str]] = {}
            for engine, labels in infos.items():
                if label in labels:
                    by_value.setdefault(labels[label], []).append(engine)
                else:
                    untold.add(label)
            wrong = {found: engines for found, engines in by_value.items() if not _same(found, value)}
            if not wrong:
                continue
            differences.append(difference(server.name, label, value, _format_found(wrong, len(infos))))
    held = f"{plural(len(wanted) - len(untold), 'value')} as declared on {format_where(one.name for one in servers)}"
    if untold:
        held += f"; not reported: {', '.join(sorted(untold))}"
    if len(untold) == len(wanted):
        return not_checked("configuration", title, f"{INFO} has none of the expected labels")
    failed = f"the engines differ from the stack file; `pulumi up --stack {settings.stack}` restarts them"
    return judged("configuration", title, differences, held=held, failed=failed)


def _expected_labels(settings: Settings) -> dict[str, str]:
    wanted = dict(declared.cache_labels(settings))
    extra = {argument.partition("=")[0].replace("_", "-") for argument in settings.serving.engine.extra_args}
    # These two override every declared cache setting.
    for label in ("num_gpu_blocks_override", "kv_cache_memory_bytes"):
        if f"--{label.replace('_', '-')}" not in extra:
            wanted[label] = "None"
    return wanted


def _same(found: str, wanted: str) -> bool:
    try:
        return abs(float(found) - float(wanted)) < 1e-6
    except ValueError:
        return found == wanted


def _format_found(wrong: Mapping[str, list[str]], engines: int) -> str:
    parts = []
    for found, where in wrong.items():
        all_of_them = len(where) == engines
        parts.append(
            found if all_of_them else f"{found} on engine{'s' if len(where) > 1 else ''} {', '.join(sorted(where))}"
        )
    return "; ".join(parts)


def engines(facts: Facts, settings: Settings) -> Check:
    """The number of engines against the declared ranks."""
    title = "Engines of a replica"
    wanted = settings.serving.engine.data_parallel_size
    servers = [one for one in facts.servers if one.answers and one.metrics is not None]
    if not servers:
        return not_checked("engines", title, _why_no_metrics(facts))
    differences: list[Finding] = []
    for server in servers:
        found = _engine_names(server)
        if len(found) != wanted:
            shown = f"{len(found)} ({', '.join(found)})" if found else "none at /metrics"
            differences.append(difference(server.name, "engines", str(wanted), shown))
    return judged("engines", title, differences, held=f"{wanted} on {format_where(s.name for s in servers)}")


def _engine_names(server: Server) -> list[str]:
    if server.metrics is None:
        return []
    found = {one.labels.get("engine", "") for name in (RUNNING, INFO) for one in server.metrics.of(name)}
    return sorted(found, key=lambda name: (len(name), name))


def kv_tokens(facts: Facts, settings: Settings) -> Check:
    """An engine's cache size against the planner's memory model."""
    title = "KV cache tokens per engine"
    if not declared.is_the_articles_model(settings):
        return not_checked(
            "kv-tokens", title, f"the planner's memory model is not calibrated for {settings.serving.model.id}"
        )
    if any(word in _expected_labels_missing(settings) for word in ("num_gpu_blocks_override", "kv_cache_memory_bytes")):
        return not_checked("kv-tokens", title, "extraArgs set the cache size")
    layout = declared.layout(settings)
    try:
        expected = declared.kv_expectation(settings)
    except DoesNotFitError as error:
        return not_checked("kv-tokens", title, str(error))
    assert layout is not None
    assert expected is not None
    if why := nobody(facts):
        return not_checked("kv-tokens", title, why)
    differences: list[Finding] = []
    seen: list[int] = []
    silent: list[str] = []
    for server in (one for one in facts.servers if one.answers):
        found = _tokens_of(server, settings, layout)
        if not found:
            silent.append(server.name)
            continue
        seen += found
        off = [tokens for tokens in found if abs(tokens / expected.kv_tokens - 1) > declared.KV_TOLERANCE]
        if not off:
            continue
        worst = max(off, key=lambda tokens: abs(tokens - expected.kv_tokens))
        words = f"{worst:,} ({100 * (worst / expected.kv_tokens - 1):+.0f} %)"
        declared_words = f"{expected.kv_tokens:,} ± {100 * declared.KV_TOLERANCE:.0f} %"
        differences.append(difference(server.name, "KV tokens", declared_words, words))
    if not seen:
        return not_checked("kv-tokens", title, _why_no_blocks(facts, settings))
    lowest, highest = min(seen), max(seen)
    shown = f"{lowest:,}" if lowest == highest else f"{lowest:,} to {highest:,}"
    held = f"{shown}, expected {expected.kv_tokens:,} ± {100 * declared.KV_TOLERANCE:.0f} %"
    if silent and not differences:
        return not_checked(
            "kv-tokens", title, f"{held}; {plural(len(silent), 'pod')} did not report it: {', '.join(silent)}"
        )
    failed = "the cache size differs from the planner's memory model for the declared flags, and so does the possible concurrency"
    return judged("kv-tokens", title, differences, held=held, failed=failed)


def _expected_labels_missing(settings: Settings) -> set[str]:
    return {"num_gpu_blocks_override", "kv_cache_memory_bytes"} - _expected_labels(settings).keys()


def _tokens_of(server: Server, settings: Settings, layout: memory.CacheLayout) -> list[int]:
    """Tokens of each engine's cache, from the metrics or the log."""
    engine = settings.serving.engine
    found: set[int] = set()
    for labels in _infos(server).values():
        blocks, block = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
        if not (blocks.isdecimal() and block.isdecimal()):
            continue
        number = int(blocks)
        if engine.api_servers == 1 and engine.data_parallel_size > 1:
            # With one API server, each engine reports the sum of all. Source: vLLM 0.18.1,
            # v1/engine/utils.py, process_input of the engines' READY.
            number //= engine.data_parallel_size
        found.add(number // (1 + memory.linear_groups(layout)) * int(block))
    return sorted(found) or sorted(set(server.logged_kv_tokens))


def _why_no_blocks(facts: Facts, settings: Settings) -> str:
    if not _with_info(facts)[0]:
        return _with_info(facts)[1]
    several_servers = settings.serving.engine.api_servers > 1
    why = (
        "with several API servers, vLLM 0.18.1 reports num_gpu_blocks None at /metrics"
        if several_servers
        else "/metrics does not report num_gpu_blocks"
    )
    where = "the pods' logs no longer include the start" if facts.pods else "the pods' logs cannot be read"
    return f"{why}, and {where} (line `GPU KV cache size`)"


def _infos(server: Server) -> dict[str, Mapping[str, str]]:
    """Labels of the info metric by engine."""
    found = server.metrics.of(INFO) if server.metrics is not None else ()
    return {one.labels.get("engine", ""): one.labels for one in found}


def _with_info(facts: Facts) -> tuple[list[Server], str]:
    servers = [server for server in facts.servers if server.answers and _infos(server)]
    if servers:
        return servers, ""
    scraped = any(server.metrics is not None for server in facts.servers)
    return [], f"no {INFO} at /metrics" if scraped else _why_no_metrics(facts)


def _why_no_metrics(facts: Facts) -> str:
    troubles = [server.metrics_trouble for server in facts.servers if server.answers and server.metrics_trouble]
    return nobody(facts) or (troubles[0] if troubles else "no server returned metrics")
