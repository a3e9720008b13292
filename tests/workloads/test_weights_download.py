"""The writer's script, run for real: Git, Git LFS and a hub on loopback that cuts, corrupts and asks for a token."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.workloads.lfs_server import TOKEN, Hub, serving

SCRIPT = Path(__file__).parents[2] / "workloads" / "weights" / "weights_download.sh"
IN_CI = bool(os.environ.get("CI"))
WEIGHTS = {
    "model-00001-of-00002.safetensors": os.urandom(300_000),
    "model-00002-of-00002.safetensors": os.urandom(200_000),
    "tokenizer.json": b"{}" * 50_000,
}
SMALL = {
    "config.json": b'{"architectures": ["Hybrid"]}\n',
    ".gitattributes": b"*.safetensors filter=lfs diff=lfs merge=lfs -text\ntokenizer.json filter=lfs -text\n",
    "docs/a file.txt": b"with a space\n",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not IN_CI and shutil.which("git-lfs") is None, reason="git-lfs is not installed (apt-get install git-lfs)"
    ),
]


@contextmanager
def hub_of(root: Path, files: dict[str, bytes], large: dict[str, bytes]) -> Iterator[Hub]:
    root.mkdir()
    hub = Hub(root=root)
    hub.commit(files, large)
    with serving(hub):
        yield hub


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with hub_of(tmp_path / "hub", SMALL, WEIGHTS) as hub:
        yield hub


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    return folder


def shells() -> list[list[str]]:
    found = [["sh"]]
    if shutil.which("busybox"):
        found.append(["busybox", "sh"])
    return found


def download(
    hub: Hub, volume: Path, *, shell: tuple[str, ...] = ("sh",), **more: str
) -> subprocess.CompletedProcess[str]:
    home = volume.parent / "home"
    home.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "MODEL_ID": hub.model_id,
        "REVISION": hub.revision,
        "REMOTE": hub.url,
        "TARGET": str(volume),
        "ATTEMPTS": "3",
        "PAUSE_SECONDS": "0",
        "no_proxy": "127.0.0.1",
        **more,
    }
    return subprocess.run(
        [*shell, "-c", SCRIPT.read_text()],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def with_tool(volume: Path, name: str, script: str) -> str:
    """The PATH of a shell that finds this script under a tool's name."""
    tools = volume.parent / "tools"
    tools.mkdir()
    (tools / name).write_text(f"#!/bin/sh\n{script}")
    (tools / name).chmod(0o755)
    return f"{tools}:{os.environ['PATH']}"


def assert_complete(hub: Hub, volume: Path) -> None:
    model = volume / hub.model_id
    for name, content in {**SMALL, **WEIGHTS}.items():
        assert (model / name).read_bytes() == content
    lines = (volume / "MANIFEST.sha256").read_text().splitlines()
    expected = {f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in {**SMALL, **WEIGHTS}.items()}
    assert set(lines) == expected
    assert len(lines) == len(expected)
    assert (volume / "REVISION").read_text() == f"{hub.model_id} {hub.revision}\n"
    assert not (model / ".git").exists()


@pytest.mark.parametrize("shell", shells(), ids=lambda shell: shell[0])
def test_a_fresh_volume_ends_with_every_file_a_manifest_and_no_git_folder(
    hub: Hub, volume: Path, shell: list[str]
) -> None:
    done = download(hub, volume, shell=tuple(shell))
    assert done.returncode == 0, done.stderr
    assert_complete(hub, volume)
    assert sorted(hub.sent) == sorted(hub.objects)
    check = subprocess.run(
        ["sha256sum", "--check", "--quiet", str(volume / "MANIFEST.sha256")],
        cwd=volume / hub.model_id,
        capture_output=True,
        check=False,
    )
    assert check.returncode == 0


def test_the_volume_never_holds_the_weights_twice(hub: Hub, volume: Path) -> None:
    download(hub, volume)
    size = sum(path.stat().st_size for path in volume.rglob("*") if path.is_file())
    assert size < sum(map(len, WEIGHTS.values())) * 1.01


@pytest.mark.parametrize(
    ("large", "unread"),
    [
        # As in openai/gpt-oss-*: the same weights for two other programs.
        (("model-1.safetensors",), ("original/model.safetensors", "metal/model.bin")),
        # As in Llama: .pth files, and those of other frameworks.
        (
            ("model.safetensors",),
            ("original/consolidated.00.pth", "onnx/model.onnx", "flax_model.msgpack", "tf_model.h5"),
        ),
        (("model.safetensors", "colbert_linear.pt"), ("pytorch_model.bin", "optimizer.pt", "Model-Q4_K_M.gguf")),
        # As in Mistral: vLLM's format `auto` takes this one, and would miss the shards that the index names.
        (("consolidated.safetensors",), ("model-1.safetensors", "model-2.safetensors", "model.safetensors.index.json")),
        (("pytorch_model-1.bin", "whisper/model.safetensors"), ("training_args.bin",)),
        (("in_index.safetensors", "model-1.safetensors", "adapter_model.safetensors"), ("model.safetensors",)),
        # An index in Git LFS is a pointer and decides nothing.
        (("model-1.safetensors", "model.safetensors.index.json"), ()),
    ],
    ids=lambda names: names[0] if names else "all",
)
def test_what_vllm_never_reads_is_not_downloaded(
    volume: Path, tmp_path: Path, large: tuple[str, ...], unread: tuple[str, ...]
) -> None:
    plain = {"config.json": b"{}"}
    if "in_index.safetensors" in large:
        plain["model.safetensors.index.json"] = b'{"weight_map": {"a": "model-1.safetensors"}}'
    with hub_of(tmp_path / "copies", plain, {name: name.encode() * 1000 for name in (*large, *unread)}) as hub:
        done = download(hub, volume)
    assert done.returncode == 0, done.stderr
    model = volume / hub.model_id
    kept = {str(path.relative_to(model)) for path in model.rglob("*") if path.is_file()}
    assert kept == {*plain, *large}
    assert sorted(hub.sent) == sorted(hashlib.sha256(name.encode() * 1000).hexdigest() for name in large)
    assert len((volume / "MANIFEST.sha256").read_text().splitlines()) == len(kept)


def test_an_adapter_in_its_own_folder_and_the_model_share_a_volume(hub: Hub, volume: Path) -> None:
    """As the Job's containers run it one after the other, again after a failure."""
    for _ in range(2):
        for target in (volume / "adapters" / "support", volume):
            done = download(hub, volume, TARGET=str(target))
            assert done.returncode == 0, done.stderr
    for target in (volume / "adapters" / "support", volume):
        assert_complete(hub, target)
    refused = download(hub, volume, TARGET=str(volume / "adapters" / "support"), REVISION="f" * 40)
    assert refused.returncode == 64


def test_a_complete_volume_is_left_alone_without_asking_the_hub(hub: Hub, volume: Path) -> None:
    download(hub, volume)
    hub.sent.clear()
    done = download(hub, volume, REMOTE="http://127.0.0.1:9")
    assert done.returncode == 0
    assert hub.sent == []
    assert "complete" in done.stdout


def test_transfers_that_break_off_are_continued(hub: Hub, volume: Path) -> None:
    hub.cut_transfers = 2
    done = download(hub, volume)
    assert done.returncode == 0, done.stderr
    assert_complete(hub, volume)
    assert hub.ranges, "a broken transfer was begun again from its first byte"


def test_a_second_pod_does_not_fetch_what_the_first_one_has(hub: Hub, volume: Path) -> None:
    broken = hashlib.sha256(WEIGHTS["model-00001-of-00002.safetensors"]).hexdigest()
    hub.corrupt = {broken}
    first = download(hub, volume, ATTEMPTS="1")
    assert first.returncode == 1
    assert "goes on from here" in first.stderr
    assert not (volume / "REVISION").exists()
    hub.corrupt, hub.sent = set(), []
    second = download(hub, volume)
    assert second.returncode == 0, second.stderr
    assert hub.sent == [broken]
    assert_complete(hub, volume)


def test_a_pod_killed_while_placing_files_loses_no_object(hub: Hub, volume: Path) -> None:
    """The first pod dies between linking and the manifest: its successor rewrites pointers, and must not harm objects."""
    died = download(hub, volume, PATH=with_tool(volume, "sha256sum", "kill -9 $PPID\nsleep 1\nexit 1\n"))
    assert died.returncode != 0
    assert (volume / hub.model_id / "model-00001-of-00002.safetensors").stat().st_size == 300_000
    hub.sent.clear()
    done = download(hub, volume)
    assert done.returncode == 0, done.stderr
    assert hub.sent == []
    assert_complete(hub, volume)


def test_an_object_that_rots_on_the_volume_is_fetched_again(hub: Hub, volume: Path) -> None:
    oid = hashlib.sha256(WEIGHTS["tokenizer.json"]).hexdigest()
    hub.corrupt = {hashlib.sha256(WEIGHTS["model-00002-of-00002.safetensors"]).hexdigest()}
    download(hub, volume, ATTEMPTS="1")
    stored = volume / hub.model_id / ".git/lfs/objects" / oid[:2] / oid[2:4] / oid
    stored.chmod(0o644)
    stored.write_bytes(bytes(stored.stat().st_size))
    hub.corrupt, hub.sent = set(), []
    done = download(hub, volume)
    assert done.returncode == 0, done.stderr
    assert oid in hub.sent
    assert_complete(hub, volume)


def test_a_gated_model_is_read_with_the_token_from_its_file(hub: Hub, volume: Path, tmp_path: Path) -> None:
    hub.needs_token = True
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    done = download(hub, volume, HF_TOKEN_PATH=str(path))
    assert done.returncode == 0, done.stderr
    assert_complete(hub, volume)
    assert TOKEN not in done.stdout + done.stderr
    written = b"".join(one.read_bytes() for one in volume.parent.joinpath("home").rglob("*") if one.is_file())
    assert TOKEN.encode() not in written
    assert not any(TOKEN.encode() in one.read_bytes() for one in volume.rglob("*") if one.is_file())


def test_a_gated_model_without_a_token_fails_and_says_that_it_needs_one(hub: Hub, volume: Path) -> None:
    hub.needs_token = True
    done = download(hub, volume, ATTEMPTS="1")
    assert done.returncode == 1
    assert "needs a token" in done.stderr


def test_an_older_pinned_revision_is_written_although_the_branch_has_moved_on(hub: Hub, volume: Path) -> None:
    pinned = hub.revision
    hub.commit({"config.json": b"{}\n"}, {"model-00001-of-00002.safetensors": b"other weights"})
    hub.revision = pinned
    done = download(hub, volume)
    assert done.returncode == 0, done.stderr
    assert_complete(hub, volume)


def test_a_server_that_refuses_single_commits_is_asked_for_every_branch(hub: Hub, volume: Path) -> None:
    pinned = hub.revision
    hub.commit({"config.json": b"{}\n"}, {})
    hub.revision = pinned
    # Protocol version 0 with the default uploadpack.allowAnySHA1InWant=false refuses a commit that no branch points at.
    done = download(hub, volume, GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="protocol.version", GIT_CONFIG_VALUE_0="0")
    assert done.returncode == 0, done.stderr
    assert "fetching every branch" in done.stdout
    assert_complete(hub, volume)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"REVISION": "main"}, "40 hexadecimal digits"),
        ({"REVISION": "0" * 40}, "has no commit"),
        # An empty file of a token.
        ({"HF_TOKEN_PATH": os.devnull}, "missing or empty"),
    ],
)
def test_what_cannot_be_is_no_case_for_another_try(
    hub: Hub, volume: Path, change: dict[str, str], message: str
) -> None:
    done = download(hub, volume, **change)
    assert done.returncode == 64
    assert message in done.stderr


def test_a_volume_of_another_revision_is_not_overwritten(hub: Hub, volume: Path) -> None:
    download(hub, volume)
    first = hub.revision
    hub.commit({"config.json": b"{}\n"}, {})
    done = download(hub, volume)
    assert done.returncode == 64
    assert first in done.stderr
    assert (volume / hub.model_id / "config.json").read_bytes() == SMALL["config.json"]


def test_a_repository_without_weights_is_refused(volume: Path, tmp_path: Path) -> None:
    with hub_of(tmp_path / "other", {"README.md": b"soon\n"}, {}) as empty:
        done = download(empty, volume)
    assert done.returncode == 64
    assert "no weights" in done.stderr


def test_a_volume_without_room_is_refused_before_the_download(hub: Hub, volume: Path) -> None:
    full = with_tool(volume, "df", "echo header\necho dev 1000 999 1 99% /\n")
    done = download(hub, volume, PATH=full)
    assert done.returncode == 64
    assert "raise weights.sizeGib" in done.stderr
    assert hub.sent == []


@pytest.mark.skipif(not IN_CI and shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing_in_the_script() -> None:
    done = subprocess.run(["shellcheck", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0
