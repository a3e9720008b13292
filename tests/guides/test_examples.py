"""The commands of the examples, typed in their folders, as infra/README.md says."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.providers.google.cloud import CLUSTER
from tests.guides.lines import ROOT, pages
from tests.guides.world import world

pytestmark = pytest.mark.slow

OWN_CLUSTER = 'pulumi config set --secret kubeconfig "$(kubectl config view --minify --flatten)"'
EXAMPLES = sorted(path.parent.name for path in ROOT.glob("docs/examples/*/__main__.py"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_comes_up(name: str, tmp_path: Path) -> None:
    of_its_own_cluster = OWN_CLUSTER in pages().get(f"docs/examples/{name}/Pulumi.example.yaml", ())
    with world(tmp_path / "run", ROOT / "docs" / "examples" / name) as here:
        (here.folder / "kubeconfig").write_text('{"kind": "Config"}')
        for line in (
            "pulumi stack init example",
            *([OWN_CLUSTER] if of_its_own_cluster else ["pulumi config set gcp:project my-project"]),
            "pulumi up",
        ):
            said = here.type(line, {"kubectl config view --minify --flatten": "cat kubeconfig"})
            assert said.code == 0, said.stdout + said.stderr
        destroyed = here.type("pulumi destroy")
        is_protected = any(one.type == CLUSTER for one in here.cloud.all())
        assert (destroyed.code == 0) is not is_protected, destroyed.stdout
