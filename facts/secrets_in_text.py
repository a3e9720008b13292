"""Finds and hides secrets in values and texts.

A message never quotes any part of a secret, because verdicts end up in logs and pull requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

SECRET_TEXT: Final = "[secret]"  # noqa: S105 - the replacement text


class Form(NamedTuple):
    """The form of a kind of secret."""

    what: str
    begins: str
    """Texts with which it begins, separated by spaces. They are searched first because that is fast."""
    goes_on: str
    """Regular expression of the rest. Repetitions are bounded against hostile texts."""

    @property
    def pattern(self) -> str:
        """Regular expression of the whole."""
        begins = ((r"\b" if one[0].isalpha() else "") + re.escape(one) for one in self.begins.split())
        return f"(?:{'|'.join(begins)}){self.goes_on}"


FORMS: Final = (
    # Hugging Face, "User access tokens"; `api_org_` for organizations.
    Form("a Hugging Face token", "hf_ api_org_", r"[A-Za-z0-9]{20,}"),
    # RFC 7468; the whole key, not only its header.
    Form(
        "a private key",
        "-----BEGIN",
        r" (?:[A-Z]+ )*PRIVATE KEY-----[\s\S]*?(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----|\Z)",
    ),
    # Google Cloud, "API keys"; OAuth 2.0 access tokens and client secrets.
    Form("a Google API key", "AIza", r"[0-9A-Za-z_-]{35}"),
    Form("a Google access token", "ya29.", r"[0-9A-Za-z_-]{20,}"),
    Form("a Google client secret", "GOCSPX-", r"[0-9A-Za-z_-]{20,}"),
    # GitHub, "Behind GitHub's new authentication token formats"; GitLab, "Token prefixes".
    Form("a GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"[A-Za-z0-9_]{30,}"),
    Form("a GitLab token", "glpat- gldt- glrt- glcbt- glptt- gloas-", r"[0-9A-Za-z_-]{20,}"),
    # AWS IAM, "Unique identifiers".
    Form("an AWS access key", "AKIA ASIA", r"[0-9A-Z]{16}\b"),
    Form("an NVIDIA API key", "nvapi-", r"[A-Za-z0-9_-]{40,}"),
    # OpenAI, Anthropic and others. A long run, because names may start with `sk-` as well.
    Form("an API key", "sk-", r"(?:[A-Za-z0-9_]+-){0,6}[A-Za-z0-9_]{20,}"),
    # The default rules of gitleaks 8: Groq, npm, PyPI, Docker Hub, Pulumi, Grafana, Slack.
    Form("an API key", "gsk_", r"[A-Za-z0-9]{40,}"),
    Form("an npm token", "npm_", r"[A-Za-z0-9]{36}"),
    Form("a PyPI token", "pypi-", r"[A-Za-z0-9_-]{50,}"),
    Form("a Docker Hub token", "dckr_pat_", r"[A-Za-z0-9_-]{20,}"),
    Form("a Pulumi access token", "pul-", r"[0-9a-f]{40}\b"),
    Form("a Grafana token", "glsa_ glc_", r"[A-Za-z0-9_+/=]{32,}"),
    Form("a Slack token", "xoxa- xoxb- xoxp- xoxr- xoxs- hooks.slack.com/services/", r"[0-9A-Za-z/-]{20,}"),
    # RFC 7519: a header and claims, both JSON objects in base64url.
    Form("a signed token (JWT)", "eyJ", r"[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    Form("a bearer token", "Bearer", r"\s+[A-Za-z0-9._~+/-]{16,}"),
    # RFC 3986, userinfo. A long user name alone is a token, as for GitHub and GitLab.
    Form("a password in a URL", "://", r"(?:[^/\s:@]*:[^/\s:@${}]+@|(?<=https://)[^/\s:@${}]{16,}@)"),
    # Signed URLs of Amazon S3, Cloud Storage and Azure Storage, and passwords in a query.
    Form(
        "a signed URL", "? &", r"(?i:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token))=[A-Za-z0-9%._~+/=-]{16,}"
    ),
    Form("a token in a URL", "? &", r"(?i:(?:access_|auth_)?token|api_?key|signature)=[A-Za-z0-9%._~+/=-]{16,}"),
    Form("a password in a URL", "? &", r"(?i:password|passwd|pwd|secret|token|sig)=[A-Za-z0-9%._~+/=-]{3,}"),
)
"""Forms documented by their issuers, so matches by chance are rare."""
_BEGINNINGS: Final = tuple((begins, form) for form in FORMS for begins in form.begins.split())
_TO_ITS_END: Final = r"[^\s\"'`,;<>(){}\[\]|]*"
"""The rest of the word after a match, which may belong to the secret."""
_NAMES: Final = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION|OTLP(?:_[A-Z]+)?_HEADERS"
    r"|(?:API|ACCESS|PRIVATE|SIGNING|ENCRYPTION|AUTH|MASTER)_?KEY|(?:S3|GCS|AWS|R2|MINIO)_KEY"
    r"|(?<!BY)PASS$|TOKEN(?:_?\d+|_VALUE)?$|(?:^|_)(?:COOKIES?|SAS|AUTH|PWD)$|(?:^|_)PAT(?:_|\d*$)"
)
_NAMES_OF_OTHER_THINGS: Final = re.compile(
    r"_(?:PATH|FILE|DIR|NAME|REF|URL|URI|HOST|ENDPOINT|ENABLED|REQUIRED|TTL|SECONDS|DAYS|LENGTH|SIZE|COUNT|LIMIT|VERSION|TYPE|MODE"
    r"|PROVIDER|MANAGER|PROJECT|NAMESPACE|MOUNT|ROTATION|INTERVAL)S?$"
    r"|(?:^|_)(?:BOS|EOS|PAD|UNK|MASK|STOP|SPECIAL|IMAGE|PER|MAX|MIN|FIRST|LAST|NEXT|INPUT|OUTPUT)_TOKEN$"
)
"""Names of a secret's location or handling, and tokens of a language model."""
_OPTION: Final = re.compile(r"--(?<![\w.-]--)([A-Za-z][\w.-]*)(?:=|\s+)(?=(\S+))")
_LAST_OPTION: Final = re.compile(r"--(?<![\w.-]--)([A-Za-z][\w.-]*)\s*$")
_OPTION_WITHOUT_SECRET: Final = re.compile(r"(?:show-|with-)?secrets?|password-stdin|no-.*")
"""Options about secrets that are not followed by one, such as `pulumi config set --secret KEY`."""
_ABBREVIATED: Final = re.compile(r"ap|api[-_]?(?:k|ke)?|hf[-_]t(?:o|ok|oke)?")
"""vLLM accepts abbreviations of --api-key and --hf-token."""
_ASSIGNED: Final = re.compile(r"""(?:^|[\s;&"'])([A-Z][A-Z0-9_]{2,99})=["']?([^\s"';&|`]+)""", re.MULTILINE)
"""A variable and its value in a script or a file of variables."""
_ENTRY: Final = re.compile(
    r"""^[ \t-]*["']?([A-Za-z][\w.-]{0,99})["']?[ \t]*(?:=|:(?=\s))[ \t]*["']?([^\s"'#,;]+)["']?[ \t]*(?:#.*)?$""",
    re.MULTILINE,
)
"""A key and its value alone on a line of a settings file."""
_CODE: Final = re.compile(r"#!|import\s|from\s|(?:async )?def\s|function\s")
"""How a script begins, whose lines are no entries."""
_OBJECT: Final = re.compile(r"[a-z](?:[a-z0-9.-]*[a-z0-9])?")
"""A name of an object in Kubernetes. Source: Kubernetes, object names."""
_PLACEHOLDERS: Final = frozenset(
    {"", "empty", "none", "null", "dummy", "not-needed", "unused", "true", "false", SECRET_TEXT}
)
"""Values for clients of servers without a key."""
_VARIABLE: Final = re.compile(r"\$(?:[({]|[A-Z_][A-Z0-9_]*$)")
_RUN: Final = re.compile(r"[A-Za-z0-9]{20,}")
_TURN: Final = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_TURNS_OF_CHANCE: Final = 4
"""Changes between letters and digits in a run of 20 from which it counts as random. Assumed: 20 random hexadecimal digits have nine,
a name with a year has one or two."""
_BY_NAME: Final = ", by its name"


class Found(NamedTuple):
    """A secret in plain text."""

    path: str
    what: str
    """Kind of secret."""
    texts: tuple[str, ...]
    """The secret itself, which must be hidden everywhere."""


def form_of(text: str) -> str:
    """Kind of secret in a text, by its form; empty if there is none."""
    return next((form.what for form in _possible(text) if re.search(form.pattern, text)), "")


def names_secret(name: str) -> bool:
    """Whether the name of a key, variable or option indicates a secret: HF_TOKEN, apiKey, --api-key."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).upper()
    return bool(_NAMES.search(words)) and not _NAMES_OF_OTHER_THINGS.search(words)


def looks_drawn(text: str) -> bool:
    """Whether a text contains a random string, which is not necessarily a secret."""
    return any(len(_TURN.findall(run)) >= _TURNS_OF_CHANCE for run in _RUN.findall(text))


def looks_secret(name: str, value: object) -> bool:
    """Whether a value must be hidden, by its name or by its form."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    return bool(form_of(str(value))) or (names_secret(name) and not _is_harmless(str(value)))


def without_secrets(text: str) -> str:
    """The text with `[secret]` in place of every secret, found by its form or by the option before it."""
    return _without(text, _spans(text))


def without_forms(text: str) -> str:
    """The same by form alone: for a whole page, in which a word before a value may mean anything."""
    return _without(text, _spans_by_form(text))


def secrets_in(value: Any, skipped: Sequence[str] = (), *, any_name: bool = False) -> Iterator[Found]:
    """Every secret in plain text in these properties, except below the top-level keys in `skipped`.

    A key counts if it is an uppercase variable, because a `secret` of Kubernetes or Google Cloud is a reference; with `any_name`
    every key counts, with everything below it.

    A value that is unknown in a preview is skipped; the update checks it. If its key indicates a secret, the error is raised after
    all other values have been checked.
    """
    unread: list[Exception] = []
    yield from _walk(value, "", "", skipped, unread, any_name=any_name)
    if unread:
        raise unread[0]


def secrets_in_files(value: Any) -> Iterator[Found]:
    """Every secret among the entries of a ConfigMap or the values of a chart: by the name of its key, or of an entry in its text.

    Names of objects, such as `existingSecret: hf-token`, are none.
    """
    for found in secrets_in(value, any_name=True):
        if not (found.what.endswith(_BY_NAME) and _is_reference(found.path, found.texts[-1])):
            yield found
    for path, text in _texts_below(value, ""):
        for name, given in _ENTRY.findall(text) if not _CODE.match(text.lstrip()) else ():
            if names_secret(name) and not _is_left_out(given) and not _is_reference(name, given):
                yield Found(f"{path} at {name}", f"a secret{_BY_NAME}", (given,))


def _walk(
    value: Any, path: str, reason: str, skipped: Sequence[str], unread: list[Exception], *, any_name: bool
) -> Iterator[Found]:
    """`reason`: why the value is a secret regardless of its form; empty if it is not."""
    if isinstance(value, Mapping):
        unknown: dict[Any, Exception] = {}
        items = {key: item for key in value if key not in skipped for item in _read(value, key, unknown)}
        for key in (key for key in value if key not in skipped):
            name = str(key)
            form = form_of(name)
            place = f"{path}.{SECRET_TEXT if form else name}".lstrip(".")
            if form:
                yield Found(place, f"{form} in a key", tuple(_texts(name)))
            why = _reason(name, items, any_name=any_name)
            if key in items:
                yield from _walk(items[key], place, why or (reason if any_name else ""), (), unread, any_name=any_name)
            elif why:
                unread.append(unknown[key])
    elif isinstance(value, Sequence) and not isinstance(value, str):
        before = ""
        for index in range(len(value)):
            for item in _read(value, index, {}):
                option = _LAST_OPTION.search(before)
                given = option is not None and _gives_secret(option[1]) and not _is_left_out(item)
                why = "a secret given as an option" if given else reason
                yield from _walk(item, f"{path}[{index}]", why, (), unread, any_name=any_name)
                before = item if isinstance(item, str) else ""
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield from _in_text(str(value), path, reason)


def _in_text(text: str, path: str, reason: str) -> Iterator[Found]:
    texts = tuple(_texts(text))
    if reason and not _is_harmless(text):
        yield Found(path, form_of(text) or reason, (*texts, text, text.strip()))
    elif texts:
        yield Found(path, form_of(text) or "a secret given as an option", texts)
    elif "=" in text:
        for name, given in _ASSIGNED.findall(text):
            if names_secret(name) and not _is_left_out(given):
                yield Found(path, f"the variable {name} with a secret{_BY_NAME}", (given,))


def _texts_below(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Texts that may have entries."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key in value:
            for item in _read(value, key, {}):
                yield from _texts_below(item, f"{path}.{key}".lstrip("."))


def _read(container: Any, key: Any, unknown: dict[Any, Exception]) -> Iterator[Any]:
    """The value, or nothing and its error in `unknown`."""
    try:
        value = container[key]
    except Exception as error:  # the SDK's class for unknown values; this module does not import the SDK
        unknown[key] = error
    else:
        yield value


def _reason(key: str, items: Mapping[Any, Any], *, any_name: bool) -> str:
    """Why a key's value is a secret: by the key, or by `name` of a variable `{name, value}`."""
    name = items.get("name")
    if key == "value" and isinstance(name, str) and names_secret(name):
        return f"a secret, by the name {without_secrets(name)}"
    return f"a secret{_BY_NAME}" if names_secret(key) and (any_name or key.isupper()) else ""


def _without(text: str, spans: Iterator[tuple[int, int]]) -> str:
    shown, end = [], 0
    for start, stop in sorted(spans):
        if start >= end:
            shown += [text[end:start], SECRET_TEXT]
        end = max(end, stop)
    return "".join([*shown, text[end:]])


def _spans_by_form(text: str) -> Iterator[tuple[int, int]]:
    if forms := _possible(text):
        any_of = f"(?:{'|'.join(form.pattern for form in forms)}){_TO_ITS_END}"
        yield from (found.span() for found in re.finditer(any_of, text))


def _spans(text: str) -> Iterator[tuple[int, int]]:
    yield from _spans_by_form(text)
    for option in _OPTION.finditer(text):
        if _gives_secret(option[1]) and not _is_left_out(option[2].strip("\"'")):
            yield option.span(2)


def _possible(text: str) -> list[Form]:
    return [*dict.fromkeys([form for begins, form in _BEGINNINGS if begins in text])]


def _texts(text: str) -> Iterator[str]:
    return (text[start:stop].strip("\"'") for start, stop in _spans(text))


def _gives_secret(option: str) -> bool:
    named = names_secret(option) or _ABBREVIATED.fullmatch(option)
    return bool(named) and not _OPTION_WITHOUT_SECRET.fullmatch(option)


def _is_harmless(text: str) -> bool:
    """Whether a value under a secret's name is a placeholder, a variable or a file."""
    text = text.strip()
    is_elsewhere = _VARIABLE.match(text) or (text.startswith("/") and not looks_drawn(text))
    return text.lower() in _PLACEHOLDERS or bool(is_elsewhere)


def _is_left_out(value: Any) -> bool:
    """Whether an option's value is harmless, a shell variable, or the next option."""
    return isinstance(value, str) and (_is_harmless(value) or value.startswith(("$", "--", "<", "{", "%(")))


def _is_reference(name: str, text: str) -> bool:
    """Whether a value names an object that holds a secret."""
    named = re.search("secret|credential", name, re.IGNORECASE) and _OBJECT.fullmatch(text)
    return bool(named) and not looks_drawn(text)
