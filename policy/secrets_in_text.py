"""What a secret looks like, and where one stands readable in a resource's properties.

A message never repeats what was found, nor any part of it: verdicts end in logs and in pull requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

FORMS: Final = (
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{20,}")),
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")),
    ("a Google API key", re.compile(r"\bAIza[0-9A-Za-z_-]{35}")),
    ("a Google access token", re.compile(r"\bya29\.[0-9A-Za-z_-]{20,}")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{30,})")),
    ("an AWS access key", re.compile(r"\bA(?:KIA|SIA)[0-9A-Z]{16}\b")),
    ("an NVIDIA API key", re.compile(r"\bnvapi-[A-Za-z0-9_-]{40,}")),
    ("an API key", re.compile(r"\bsk-[A-Za-z0-9_-]{20,}")),
    ("a Slack token", re.compile(r"\bxox[abprs]-[0-9A-Za-z-]{20,}")),
    ("a signed token (JWT)", re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}")),
    ("a bearer token", re.compile(r"\bBearer\s+[A-Za-z0-9._~+/-]{16,}")),
    ("a password in a URL", re.compile(r"\b[a-z][a-z0-9+]*://[^/\s:@]+:[^/\s:@${}]+@")),
)
"""Forms that their issuers document, so that a match is hardly ever chance."""
_NAMES: Final = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|SECRET_KEY|PRIVATE_KEY|CREDENTIALS?)$", re.IGNORECASE
)
_OPTION: Final = re.compile(r"--(?:api[-_]key|hf[-_]token|password)(?:[=\s]+)(\S+)")
_PLACEHOLDERS: Final = frozenset({"", "empty", "none", "null", "dummy", "not-needed", "unused", "true", "false"})
"""What clients of servers without a key are given."""

Found = tuple[str, str]
"""Where, and what it looks like."""


def secrets_in(value: Any, skipped: Sequence[str] = ()) -> Iterator[Found]:
    """Every secret that stands readable in these properties, without the top-level keys in `skipped`.

    A value that is unknown during a preview is passed over: a provider has yet to make it, and the update judges it. Where
    the name beside it says that it is a secret it raises, once all others are judged: what is known to be wrong is said,
    and the engine says that there was more to read.
    """
    unread: list[Exception] = []
    yield from _walk(value, "", frozenset(skipped), unread)
    if unread:
        raise unread[0]


def _walk(value: Any, path: str, skipped: frozenset[str], unread: list[Exception]) -> Iterator[Found]:
    if isinstance(value, str):
        form = form_of(value)
        if form:
            yield path, form
        elif _is_given(value):
            yield path, "a secret given as an option"
    elif isinstance(value, Mapping):
        unknown: dict[Any, Exception] = {}
        keys = [key for key in value if path or key not in skipped]
        items = {key: item for key in keys for item in _read(value, key, unknown)}
        yield from _named(items, path)
        named = (items.get("name") if key == "value" else key for key in unknown)
        unread += [unknown[key] for key, name in zip(unknown, named, strict=True) if _names_secret(name)]
        for key, item in items.items():
            yield from _walk(item, f"{path}.{key}" if path else str(key), frozenset(), unread)
    elif isinstance(value, Sequence):
        before = ""
        for index in range(len(value)):
            for item in _read(value, index, {}):
                place = f"{path}[{index}]"
                if (
                    isinstance(item, str)
                    and _is_given(f"{before} {item}")
                    and not _is_given(item)
                    and not form_of(item)
                ):
                    yield place, "a secret given as an option"
                before = item if isinstance(item, str) else ""
                yield from _walk(item, place, frozenset(), unread)


def _read(container: Any, key: Any, unknown: dict[Any, Exception]) -> Iterator[Any]:
    """The value, or nothing and the reason among `unknown`."""
    try:
        value = container[key]
    except Exception as error:  # the SDK's own class for unknown values; this module knows no SDK
        unknown[key] = error
    else:
        yield value


def _names_secret(name: Any) -> bool:
    """Whether a variable's name, in capitals, says that its value is a secret."""
    return isinstance(name, str) and name.isupper() and bool(_NAMES.search(name))


def _named(items: Mapping[Any, Any], path: str) -> Iterator[Found]:
    """A variable, `{name, value}` or `NAME: value`, whose name says that its value is a secret."""
    name, value = items.get("name"), items.get("value")
    if isinstance(name, str) and isinstance(value, str) and _says_secret(name, value):
        yield f"{path}.value", f"a secret, by the name {name}"
    for key, item in items.items():
        if isinstance(item, str) and _names_secret(key) and _says_secret(key, item):
            yield f"{path}.{key}", "a secret, by its name"


def _says_secret(name: str, value: str) -> bool:
    text = value.strip()
    harmless = text.lower() in _PLACEHOLDERS or text.startswith(("/", "$(", "${"))
    # Whatever has a form of its own is found by that, once.
    return bool(_NAMES.search(name)) and not harmless and not form_of(value)


def _is_given(text: str) -> bool:
    """Whether a command line sets a key by option, in letters and not by a variable."""
    return any(
        not value.strip("\"'").startswith("$") and value.strip("\"'").lower() not in _PLACEHOLDERS
        for value in _OPTION.findall(text)
    )


def form_of(text: str) -> str:
    """What kind of secret a text holds, by its form; empty where it holds none."""
    return next((name for name, pattern in FORMS if pattern.search(text)), "")
