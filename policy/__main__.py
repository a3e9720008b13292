"""The policy pack: every rule of `rules/` as a policy. Started by the engine, or by any client of the Analyzer protocol."""

from __future__ import annotations

import sys
from pathlib import Path

# In the repository, facts and settings are beside this folder; `make policy-pack` copies them into it.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from pulumi_policy import EnforcementLevel, PolicyPack
from pulumi_policy import policy as sdk

import read_once
from analyzer import policies
from rule import all_rules

read_once.install(sdk)

# Serves until it is stopped.
PolicyPack(name="llm-fleet", enforcement_level=EnforcementLevel.ADVISORY, policies=policies(all_rules()))
