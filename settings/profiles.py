"""The profiles by name. Looking one up builds that one only: a preview pays for what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module

from settings.profile import Difference, Evidence, Profile

__all__ = ["NAMES", "Difference", "Evidence", "Profile", "UnknownProfileError", "profile"]

_BUILDERS: Mapping[str, tuple[str, str]] = {
    "record": ("settings.article_profiles", "record"),
    "tuned": ("settings.serving_profiles", "tuned"),
    "serve-chat": ("settings.serving_profiles", "serve_chat"),
    "serve-code": ("settings.serving_profiles", "serve_code"),
    "serve-batch": ("settings.serving_profiles", "serve_batch"),
    "tp8": ("settings.article_profiles", "tp8"),
    "tp8-mtp5": ("settings.article_profiles", "tp8_mtp5"),
    "dp8-131k": ("settings.article_profiles", "dp8_131k"),
    "dp8-4096": ("settings.article_profiles", "dp8_4096"),
    "dp8-4096-crash": ("settings.article_profiles", "dp8_4096_crash"),
    "mtp1-095": ("settings.article_profiles", "mtp1_095"),
    "mtp2-095": ("settings.article_profiles", "mtp2_095"),
    "no-mtp-095": ("settings.article_profiles", "no_mtp_095"),
    "397b-nvfp4": ("settings.article_profiles", "nvfp4_397b"),
}

NAMES: tuple[str, ...] = tuple(_BUILDERS)
"""Every profile, those for use first, then the article's phases in its order."""


class UnknownProfileError(LookupError):
    """No profile has that name. The message names those there are, and the nearest."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nearest = next(iter(get_close_matches(name, NAMES, n=1)), None)
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        super().__init__(f"no profile is called {name!r}{hint} Profiles: {', '.join(NAMES)}")

    def __str__(self) -> str:
        return str(self.args[0])


@cache
def profile(name: str) -> Profile:
    """The profile of that name. Raises UnknownProfileError."""
    try:
        module, function = _BUILDERS[name]
    except KeyError:
        raise UnknownProfileError(name) from None
    built = getattr(import_module(module), function)()
    assert isinstance(built, Profile)
    return built
