"""The policy pack: every rule of `rules/` as a policy. Started by the engine, or by any client of the Analyzer protocol."""

from __future__ import annotations

import sys
from pathlib import Path

# In the repository, facts and settings are beside this folder; `make policy-pack` copies them into it. Before all others of these
# names: the packages of an environment can lead to another checkout.
sys.path.insert(0, str(next(parent for parent in Path(__file__).resolve().parents if (parent / "facts").is_dir())))

from rule import all_rules
from server import serve

serve(all_rules())
