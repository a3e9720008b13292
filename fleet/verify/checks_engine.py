"""Checks of the engines: flags, environment, resolved cache settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from facts import strict_json
from facts.engines import KEEP_ALIVE
from facts.names import FIRST_ENGINE_PORT, HTTP_PORT
from facts.refused_options import variable
from facts.secrets_in_text import SECRET_TEXT, looks_secret
from facts.texts import plural
from fleet.verify import declared
from fleet.verify.facts import Facts, a_server, running, the_pods
from fleet.verify.findings import Part, Seen, Unseen, check, difference, format_where
from settings.sections.engine import ENVIRONMENT, Engine, effective_environment
from settings.sections.weights import MOUNT_PATH
from settings.server_arguments import server_arguments
from workloads.server import split, vllm_args

if TYPE_CHECKING:
    from settings.stack import Settings

INFO: Final = "vllm:cache_config_info"
_ADDED_BY_THE_POD: Final = frozenset({"--shutdown-timeout", "--revision"})
"""Flags that workloads/server/pod.py adds to the engine's."""
_LEFT_OUT: Final = "left out"
_VLLMS_OWN: Final = "VLLM_"
"""Prefix of vLLM's variables. Source: vLLM 0.18.1, envs.py."""
_OTHER: Final = "the pods run another configuration: `pulumi up` was not run or did not finish"


@check("flags", "Flags of the pods", _OTHER, needs=the_pods)
def flags(facts: Facts, settings: Settings) -> Iterator[Part]:
    """The pods' arguments, flag by flag."""
    model = settings.serving.model
    is_apart = settings.server.shape is not None
    declared_args = vllm_args.args(
        settings.serving.engine,
        model_path="",
        served_model_name=model.id,
        adapter_paths=model.adapter_paths(MOUNT_PATH),
        port=FIRST_ENGINE_PORT if is_apart else HTTP_PORT,
    )
    wanted = _parsed([*declared_args[1:], *([split.HOST] if is_apart else [])])
    pods = running(facts)
    for pod in pods:
        given = _parsed(argument for argument in pod.args if not argument.startswith("--model="))
        for name in sorted((wanted.keys() | given.keys()) - {"--model"}):
            added = name in _ADDED_BY_THE_POD and name not in wanted
            if wanted.get(name) != given.get(name) and not added:
                yield difference(pod.name, name, _format_flag(wanted, name), _format_flag(given, name))
    yield Seen(f"{plural(len(wanted), 'flag')} as declared on {format_where(pod.name for pod in pods)}")


@check("environment", "Environment of the pods", _OTHER, needs=the_pods)
def environment(facts: Facts, settings: Settings) -> Iterator[Part]:
    """The engine's environment variables in the pods. Values are shown only for variables that the program declares."""
    wanted: dict[str, str | None] = {**effective_environment(settings.serving.engine)}
    if (seconds := server_arguments(settings)["keep_alive_seconds"]) is not None:
        wanted.setdefault(KEEP_ALIVE, str(seconds))
    typed = set(ENVIRONMENT.values())
    # Set in every pod, irrelevant for speed.
    always = [*vllm_args.env(Engine(), ready_timeout_seconds=60, offline=True), *vllm_args.writable_environment("")]
    ignored = {one["name"] for one in always}
    pods = running(facts)
    for pod in pods:
        # Only the program sets vLLM's variables; other undeclared ones may be the platform's.
        dangerous = {name for name, value in pod.env.items() if variable(name, value) is not None}
        own = {name for name in pod.env if name.startswith(_VLLMS_OWN)}
        for name in sorted(wanted.keys() | (own | dangerous) - ignored):
            if name in wanted and name in pod.env and pod.env[name] == wanted[name]:
                continue
            found = _format_variable(pod.env, name, may_show=name in wanted or name in typed)
            yield difference(pod.name, name, _format_variable(wanted, name), found)
    yield Seen(f"{plural(len(wanted), 'variable')} as declared on {format_where(pod.name for pod in pods)}")


def _format_variable(env: Mapping[str, str | None], name: str, *, may_show: bool = True) -> str:
    if name not in env:
        return _LEFT_OUT
    value = env[name]
    if value is None:
        return "set by reference (valueFrom)"
    return (value or "empty") if may_show else "set"


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


@check(
    "configuration",
    "Resolved engine configuration",
    "the engines' caches are not those of the stack file: compare `flags`, then restart the pods with `pulumi up`",
    needs=a_server,
)
def configuration(facts: Facts, settings: Settings) -> Iterator[Part]:
    """The engines' resolved cache configuration against the stack file."""
    wanted = declared.cache_labels(settings)
    servers = [server for server in facts.servers if server.answers]
    untold: set[str] = set()
    for server in servers:
        infos = server.metrics.of(INFO) if server.metrics is not None else ()
        if not infos:
            yield Unseen(f"{server.name}: {server.metrics_trouble or f'no {INFO} at /metrics'}")
            continue
        untold |= {label for label in wanted if any(label not in info.labels for info in infos)}
        for label, value in wanted.items():
            wrong: dict[str, list[str]] = {}
            for info in infos:
                if not _same(found := info.labels.get(label, value), value):
                    wrong.setdefault(found, []).append(info.labels.get("engine", ""))
            if wrong:
                words = (
                    found if len(engines) == len(infos) else f"{found} on engine {', '.join(engines)}"
                    for found, engines in wrong.items()
                )
                yield difference(server.name, label, value, "; ".join(words))
    if untold:
        not_told = f"not reported: {', '.join(sorted(untold))}"
        yield Unseen(not_told) if len(untold) == len(wanted) else Seen(not_told)
    yield Seen(f"{plural(len(wanted), 'value')} as declared on {format_where(one.name for one in servers)}")


def _same(found: str, wanted: str) -> bool:
    try:
        return abs(float(found) - float(wanted)) < 1e-6
    except ValueError:
        return found == wanted
