"""The policy pack: every rule of `rules/` as a policy. Started by the engine, or by any client of the Analyzer protocol."""

from __future__ import annotations

import sys
from pathlib import Path

# In the repository, facts and settings are beside this folder; `make policy-pack` copies them into it. Before all others of these
# names: the packages of an environment can lead to another checkout.
sys.path.insert(0, str(next(one for one in Path(__file__).resolve().parents if (one / "facts").is_dir())))

from pulumi_policy import EnforcementLevel, PolicyPack
from pulumi_policy import policy as sdk

import read_once
from analyzer import policies
from not_asked import Configured
from rule import all_rules

read_once.install(sdk)
_configured = Configured()
_configured.listen(sdk._PolicyAnalyzerServicer)

# Serves until it is stopped.
PolicyPack(name="llm-fleet", enforcement_level=EnforcementLevel.ADVISORY, policies=policies(all_rules(), _configured))
