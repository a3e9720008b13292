"""Section `batch`: documents to process to their end."""

from __future__ import annotations

from string import Formatter
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from settings.sections.section import Section, like

NO_EMBEDDINGS: Final = "every profile runs vLLM's generate runner, which has no embeddings"
MOST_DAYS: Final = 7
"""After which a run of a batch ends: servers stay as long as one of its pods does, also one that hangs. The same command goes on."""
SECONDS: Final = {"m": 60, "h": 3_600, "d": 86_400}


def _generates(given: object) -> object:
    """The endpoint. Raises PydanticCustomError for embeddings."""
    if given == "embeddings":
        raise PydanticCustomError(
            "no_embeddings", "chat or completions: {why}; send embeddings to another service", {"why": NO_EMBEDDINGS}
        )
    return given


def template_parts(template: str) -> list[tuple[str, str | None]]:
    """Texts of a template such as "Summarize: {text}", each with the key that follows it. Raises ValueError."""
    parts: list[tuple[str, str | None]] = []
    try:
        for text, name, form, conversion in Formatter().parse(template):
            if name is not None and (not name or form or conversion or any(sign in name for sign in ".[]")):
                raise ValueError(f"{{{name}}} is not the name of a key")
            parts.append((text, name))
    except ValueError as error:
        raise ValueError(f"{error}; write {{KEY}} for a key of each line, {{{{ and }}}} for braces") from None
    if all(name is None for _, name in parts):
        raise ValueError("names no key of a line; write e.g. 'Summarize: {text}'")
    return parts


def _is_a_template(text: str) -> str:
    """The template. Raises ValueError."""
    try:
        template_parts(text)
    except ValueError as error:
        raise ValueError(f"a text with keys in braces ({error})") from None
    return text


class BatchDefaults(Section):
    """Fields of a request's body that a line lacks."""

    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Longest answer in tokens. Default: chat answers up to the model's context, completions up to 16 tokens."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature; 0 always takes the likeliest token. Default: the model's."""

    def body(self) -> dict[str, int | float]:
        """The given fields, by their names in a request's body."""
        return self.model_dump(exclude_none=True)


class Batch(Section):
    """Documents that `fleet batch run` processes to their end: a bucket, permissions, and what a run asks if its options do not."""

    enabled: bool = False
    """Create the bucket, its pods' service account and their network access, for `fleet batch run`."""
    input: (
        Annotated[
            str,
            like(
                r"^gs://[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]/[^\s?#]+$", "an object in Cloud Storage, gs://BUCKET/OBJECT"
            ),
        ]
        | None
    ) = None
    """Object that `fleet batch run` without a file reads, with its user's credentials, e.g. `gs://my-bucket/documents.jsonl`."""
    endpoint: Annotated[Literal["chat", "completions"], BeforeValidator(_generates)] = "chat"
    """API of the requests: chat, or completions of a text. A file in OpenAI's batch format must ask for this one."""
    template: Annotated[str, Field(min_length=1, max_length=16_384), AfterValidator(_is_a_template)] | None = None
    """For a plain JSONL: the prompt, with {KEY} for a key of each line, e.g. "Summarize: {text}". Default: OpenAI's batch format."""
    id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """With `template`: the key of a line's id. Default: `id`."""
    defaults: BatchDefaults = BatchDefaults()
    """What requests say if a line does not, e.g. `{maxTokens: 500, temperature: 0}`."""
    deadline: (
        Annotated[str, like(r"^[1-9][0-9]{0,4}(\.[0-9]{1,3})?[mhd]$", "a duration from 1m, such as 8h, 90m or 1.5d")]
        | None
    ) = None
    """Time to the end of a batch, start-up included, e.g. 8h. It decides the number of servers, and ends the batch; a later one continues
    it. Default: none, one server, seven days."""
    max_usd: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Amount in USD for all runs of a batch: a run ends when all its servers from its begin could have cost that. Raising it continues the
    batch. Default: none."""
    retention_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """Days after which documents and results in the bucket are deleted."""

    @property
    def deadline_seconds(self) -> float | None:
        """The deadline in seconds."""
        return None if self.deadline is None else float(self.deadline[:-1]) * SECONDS[self.deadline[-1]]
