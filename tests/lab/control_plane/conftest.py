"""A stand-in for the `go` command: what the build asks of it, in milliseconds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.control_plane.build import KUBERNETES_PROVIDER, PULUMI, SOURCES
from lab.control_plane.cache import OVERRIDE

SCRIPT = """#!/bin/sh
echo "$@" >> "{calls}"
{extra}
case "$1" in
env) printf '%s' '{settings}' ;;
list)
  if [ "$2" = -m ]; then echo "{module}"; exit; fi
  shift 2
  echo "go: downloading example.org/one v1.0.0"
  for package; do echo "$package/dependency"; echo "$package"; done ;;
build)
  while [ "$1" != -o ]; do shift; done
  folder=$2; shift 2
  mkdir -p "$folder"
  for package; do
    echo "$package"
    name=${{package##*/}}
    case "$name" in
    .) name=$(sed -n 's|^module .*/||p' go.mod) ;;
    v[0-9]*) package=${{package%/*}}; name=${{package##*/}} ;;
    esac
    printf '#!/bin/sh\\necho {says}\\n' > "$folder/$name"
    chmod +x "$folder/$name"
  done ;;
mod) cat "{downloads}" ;;
esac
"""


@dataclass
class FakeGo:
    """A folder for PATH, the calls so far, and what the next call does."""

    folder: Path
    calls_file: Path
    downloads_file: Path
    module: Path
    """Folder of every module, with all files that are kept or embedded."""
    version: str = "go1.26.8"
    says: str = "v1.36.3 v0.8.0 3.6.8 v3.274.1 v4.24.0"
    """What a built program answers when it is asked for its version."""
    extra: str = ""
    """Shell lines before everything else."""
    caches: dict[str, str] = field(default_factory=dict)

    def install(self) -> None:
        settings = json.dumps({"GOVERSION": self.version, **self.caches})
        go = self.folder / "go"
        go.write_text(
            SCRIPT.format(
                calls=self.calls_file,
                settings=settings,
                says=self.says,
                extra=self.extra,
                downloads=self.downloads_file,
                module=self.module,
            )
        )
        go.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """First word of every call."""
        if not self.calls_file.exists():
            return []
        return [line.split()[0] for line in self.calls_file.read_text().splitlines()]


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    folder = tmp_path / "bin"
    folder.mkdir()
    caches = {"GOMODCACHE": str(tmp_path / "mod"), "GOCACHE": str(tmp_path / "compiled")}
    fake = FakeGo(folder, tmp_path / "calls", tmp_path / "downloads", tmp_path / "module", caches=caches)
    fake.downloads_file.touch()
    for source in (*SOURCES, PULUMI, KUBERNETES_PROVIDER):
        for _, path in (*source.scripts.values(), *source.embedded.values()):
            (fake.module / path).parent.mkdir(parents=True, exist_ok=True)
            (fake.module / path).touch()
    fake.install()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv(OVERRIDE, str(tmp_path / "cache"))
    return fake
