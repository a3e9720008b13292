"""The rule for options and variables by which others control a vLLM server or read what it serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from facts.lessons.lesson import Breach, Lesson, Limits
from facts.lessons.served import Served

_CODE: Final = "it names code that runs inside the server and that no review of this repository sees"
_CLIENTS: Final = "it gives clients control over the server, without an API key"
_MODEL: Final = "the model would not be the pinned one"
_FOLDERS: Final = ("/proc", "/run", "/var", "/etc", "/root", "/home", "/weights")
"""Where a pod's secrets and weights lie."""
MEDIA: Final = "allowed-local-media-path"
OPENED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "LD_PRELOAD",
            "PYTHONPATH",
            "VLLM_LOGGING_CONFIG_PATH",
            "kv-transfer-config.kv_connector_module_path",
            "middleware",
            "scheduler-cls",
            "worker-cls",
            "worker-extension-cls",
        ),
        _CODE,
    ),
    **dict.fromkeys(
        ("VLLM_ALLOW_INSECURE_SERIALIZATION", "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "VLLM_SERVER_DEV_MODE"), _CLIENTS
    ),
    **dict.fromkeys(("VLLM_MODEL_REDIRECT_PATH", "VLLM_USE_MODELSCOPE"), _MODEL),
    MEDIA: "it lets clients read the server's own files, secrets among them",
    "config": "options in a file are not checked",
}
"""Refused options and variables, each with the reason. Source: vLLM 0.18.1 and 0.33.0, security notes, parser and vllm.envs (read)."""
_OFF: Final = ("", "0", "false")


def _given(server: Served) -> Iterator[tuple[str, Any]]:
    """Every option, key of a JSON option and variable that is on, with its value."""
    for option, value in server.flags.options.items():
        inner = value.items() if isinstance(value, Mapping) else ()
        yield from ((f"{option}.{key}", one) for key, one in inner)
        if value is not False:
            yield option, value
    for name, text in server.variables.items():
        if text is None or text.strip().lower() not in _OFF:
            yield name, "set"


def _opened(server: Served, _: Limits) -> Iterator[Breach]:
    for option, value in _given(server):
        why = OPENED.get(option, "")
        if why and not (option == MEDIA and _is_one_folder(str(value))):
            yield Breach(option=option, value=value, allowed="left out", why=why, changes={option: None})


def _is_one_folder(path: str) -> bool:
    """Whether a folder of media has neither secrets nor everything."""
    return ".." not in path and bool(path.strip("/")) and not path.startswith(_FOLDERS)


LESSONS: Final[tuple[Lesson[Served], ...]] = (
    Lesson(
        name="server-opened",
        statement="No option or variable runs code from elsewhere, opens the server to its clients, or serves another model.",
        evidence="classes of Python and libraries to load, vLLM's development mode, pickled messages and adapters loaded on request "
        "(vLLM 0.18.1 and 0.33.0, security notes)",
        level_reason="any client, or whoever wrote the option, could control the server and read what it serves",
        fix="remove the option or variable; a change of vLLM belongs into an image of your own",
        level="mandatory",
        severity="critical",
        judge=_opened,
    ),
)
