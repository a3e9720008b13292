"""The component package: serves the facades to programs in any language. Started by the engine."""

from __future__ import annotations

import sys
from pathlib import Path

# In the repository the components stand beside this folder; `make component-package` puts them into it.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from pulumi.provider import main

from facades.host import Host

# Serves until it is ended.
main(Host(), sys.argv[1:])
