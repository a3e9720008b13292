"""Finds a model's tokenizer.json: a file, or the hub's at the pinned revision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from facts.files import read_bounded
from facts.hub import file_url
from facts.user_error import UserError
from fleet.batch.tokens import MOST_OF_A_TOKENIZER

if TYPE_CHECKING:
    import requests

NAME: Final = "tokenizer.json"
_SECONDS: Final = 30
"""Until the hub connects, and between parts of its answer. Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A model as its tokenizer is downloaded."""

    id: str
    """Its repository; of a model of one's own, the path of its config.json."""
    revision: str | None
    """Commit id; None if the catalogue has none."""


def tokenizer_file(given: Path | None, model: Pinned) -> tuple[bytes, str]:
    """The content, and what it is. Raises UserError with what to download."""
    if given is not None:
        return read_bounded(given, MOST_OF_A_TOKENIZER), str(given)
    if model.revision is None:
        raise UserError(
            f"no revision of {model.id} is pinned, so its tokenizer is unknown; download {NAME} of its repository and pass it "
            "with --tokenizer"
        )
    url = file_url(model.id, model.revision, NAME)
    # Imported here: a given file needs no network.
    import requests

    try:
        with requests.get(url, timeout=_SECONDS, stream=True) as answer:
            if answer.status_code == requests.codes.ok:
                return _content(url, answer), f"{model.id} at {model.revision[:12]}"
            told = f"the hub answers {answer.status_code}"
    except requests.RequestException as error:
        told = f"the hub is not reached ({type(error).__name__})"
    raise UserError(
        f"the tokenizer of {model.id} is missing: {told}; download {url} and pass it with --tokenizer {NAME}"
    )


def _content(url: str, answer: requests.Response) -> bytes:
    content = bytearray()
    for part in answer.iter_content(2**20):
        content += part
        if len(content) > MOST_OF_A_TOKENIZER:
            raise UserError(f"{url}: more than {MOST_OF_A_TOKENIZER / 1e6:g} MB, which no {NAME} is")
    return bytes(content)
