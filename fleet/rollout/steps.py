"""Steps of a rollout as edits of the stack file, each checked before it is written."""

from __future__ import annotations

import errno
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from facts.files import write_whole
from facts.finding import Finding
from facts.names import server_name
from fleet.plan.stack_text import StackText
from fleet.rollout.judge.verdict import declaration_of
from settings.derived.canary import release, weights_ending
from settings.derived.measurement import measurement
from settings.load import check, parse
from settings.problems import SettingsError
from settings.sections.section import key
from settings.stack_file import read

if TYPE_CHECKING:
    from fleet.rollout.judge.verdict import Verdict
    from settings.sections.rollout import Canary
    from settings.stack import Settings

COMMENT: Final = "A canary: docs/rollout.md. `fleet rollout` writes and removes this section."
_ROLLOUT, _SERVER, _MODEL, _WEIGHTS = map(key, ("rollout", "server", "model", "weights"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A stack file before and after a step. Nothing is written yet."""

    path: Path
    text: str
    before: Settings
    after: Settings

    def write(self) -> None:
        """Write the file atomically. Raises OSError."""
        if not self.path.stat().st_mode & stat.S_IWUSR:
            raise PermissionError(errno.EACCES, "it is read-only", str(self.path))
        write_whole(self.path, self.text.encode())


class Rollout:
    """One stack's rollout. Raises SettingsError with all problems of a step."""

    def __init__(self, root: Path, stack: str) -> None:
        self._root, self._stack = root, stack
        self.path = root / f"Pulumi.{stack}.yaml"
        self.settings = self._settings()

    def declared(self) -> Canary:
        """The declared canary."""
        if self.settings.rollout.canary is None:
            raise self._wrong(
                "no-canary",
                None,
                "a stack with a canary",
                "the stack file declares none",
                "fleet rollout start",
            )
        return self.settings.rollout.canary

    def start(self, declared: Mapping[str, Any]) -> Change:
        """Declare a canary with these differences."""
        if self.settings.rollout.canary is not None:
            raise self._wrong("rollout-goes-on", None, "no canary yet", "one is declared", "fleet rollout abort")
        edited = self._text()
        edited.remove(("config", _ROLLOUT))  # one without a canary
        edited.add_section(_ROLLOUT, {"canary": dict(declared)}, comment=COMMENT, after=_SERVER)
        change = self._change(edited)
        assert change.after.as_canary is not None
        if release(change.after) == release(change.after.as_canary):
            raise self._wrong(
                "canary-without-difference",
                None,
                "at least one difference from the servers",
                "an identical canary costs a node and shows nothing",
                "--engine-version, --revision, --profile or --set engine.NAME=VALUE",
            )
        return change

    def weigh(self, percent: int) -> Change:
        """Give the canary this share of the users' requests; 0 takes it back."""
        self.declared()
        edited = self._text()
        edited.set(("config", _ROLLOUT, "canary", "weight"), percent)
        return self._change(edited)

    def promote(self, why: str) -> Change:
        """Apply the canary's settings to the servers; the canary stays until `finish`.

        Two steps are needed: the quota covers servers and canary. A canary removed from the stack file but not yet from
        the cluster would occupy the quota of the server being replaced, and the rolling update would never finish.
        """
        canary, was = self.declared(), self.settings.as_canary
        assert was is not None
        if self.settings.rollout.promoted is not None:
            raise self._wrong(
                "promoted-already",
                self.settings.rollout.promoted,
                "a canary that is not yet promoted",
                "the servers already have its settings",
                "fleet rollout promote --finish, after pulumi up",
            )
        edited = self._text()
        given = edited.get(("config", _ROLLOUT, "canary"))
        if "profile" in given:
            edited.set(("config", _SERVER, "profile"), given["profile"])
        for name, value in given.get("engine", {}).items():
            edited.set(("config", _SERVER, "engine", name), value)
        # As settings/sections/rollout.py lays a canary over the servers.
        if "image" in given:
            kept = edited.get(("config", _SERVER, "image")) or {}
            kept = {name: value for name, value in kept.items() if name == "repository"}
            edited.set(("config", _SERVER, "image"), kept | given["image"])
            if "tag" in given["image"] and "version" not in canary.engine:
                edited.remove(("config", _SERVER, "engine", "version"))
        elif "version" in canary.engine:
            edited.remove(("config", _SERVER, "image", "tag"))
            edited.remove(("config", _SERVER, "image", "digest"))
        if "model" in given:
            model = was.serving.model
            named = {"id": model.id, "revision": model.revision, "sizeGb": model.size_gb}
            for name, value in named.items():
                if edited.get(("config", _MODEL, name)) != value:
                    edited.set(("config", _MODEL, name), value)
            if not model.adapters:
                edited.remove(("config", _MODEL, "adapters"))
            if server_name(model.id) != (address := self.settings.server.name):
                edited.set(("config", _SERVER, "name"), address)  # the default follows the model
        if ending := weights_ending(self.settings):
            edited.set(("config", _WEIGHTS, "nameEnding"), ending)
        edited.set(("config", _ROLLOUT, "promoted"), why)
        change = self._change(edited)
        if release(change.after) != release(was):
            raise self._wrong(
                "promotion-by-hand",
                None,
                "canary settings that can be applied to the servers",
                "the servers would differ from the canary",
                "the canary's settings to server and model manually, then remove the canary",
            )
        return change

    def finish(self) -> Change:
        """Remove the promoted canary."""
        self.declared()
        if self.settings.rollout.promoted is None:
            raise self._wrong(
                "not-promoted",
                None,
                "a canary that was promoted",
                "the servers do not have its settings yet",
                "fleet rollout promote, or fleet rollout abort",
            )
        return self._without()

    def abort(self) -> Change:
        """Remove the canary; the servers stay unchanged."""
        self.declared()
        if self.settings.rollout.promoted is not None:
            raise self._wrong(
                "promoted-already",
                self.settings.rollout.promoted,
                "a canary that is not yet promoted",
                "the servers already have its settings, which removing it would not revert",
                "the stack file from version control, as `start` left it; or promote --finish, then a canary of the former release",
            )
        return self._without()

    def verdict(self, verdict: Verdict) -> None:
        """Raises SettingsError unless this verdict promotes this canary beside these servers."""
        self.declared()
        assert self.settings.as_canary is not None
        allowed, write = "verdict promote of this canary", "fleet rollout judge, or --without-verdict REASON"
        if verdict.verdict != "promote":
            raise self._wrong("verdict", verdict.verdict, allowed, verdict.headline, write)
        sides = (
            ("canary", verdict.declaration, self.settings.as_canary),
            ("servers", declaration_of(verdict.old[0].model_dump()), self.settings),
        )
        for side, judged, settings in sides:
            if judged != declaration_of(measurement(settings).run):
                raise self._wrong(
                    "verdict-of-another",
                    side,
                    allowed,
                    f"the {side} in the stack file differ from the measured ones",
                    write,
                )

    def _without(self) -> Change:
        edited = self._text()
        edited.remove_section(_ROLLOUT, comment=COMMENT)
        return self._change(edited)

    def _text(self) -> StackText:
        edited = StackText(self.path.read_bytes().decode(), name=self.path.name, stack=self._stack)
        for name in (_ROLLOUT, _SERVER, _MODEL, _WEIGHTS):
            if isinstance(edited.get(("config", name)), str):
                raise SettingsError(
                    self._stack,
                    [
                        Finding(
                            id="section-in-text",
                            subject=name,
                            found=None,
                            allowed="a section of keys and values",
                            why="it is a JSON string, and `fleet rollout` edits single keys of the stack file",
                            write=f"{name}: and its keys below, indented",
                        )
                    ],
                )
        return edited

    def _change(self, edited: StackText) -> Change:
        return Change(
            path=self.path, text=edited.text, before=self.settings, after=self._settings(edited.text, checked=True)
        )

    def _settings(self, text: str | None = None, *, checked: bool = False) -> Settings:
        file = read(self._root, self._stack, text)
        settings = parse(self._stack, file.config, file.unopened)
        refused = [one for one in check(settings) if one.severity == "error"] if checked else []
        if refused:
            raise SettingsError(self._stack, refused)
        return settings

    def _wrong(self, id_: str, value: Any, allowed: str, why: str, write: str) -> SettingsError:
        problem = Finding(id=id_, subject=_ROLLOUT, found=value, allowed=allowed, why=why, write=write)
        return SettingsError(self._stack, [problem])
