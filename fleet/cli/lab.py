"""The toolbox's one door to the lab: the commands that prove things on this machine, and what they need of it."""

from __future__ import annotations

from lab.commands.prerequisites import go as go
from lab.commands.prerequisites import system as system
from lab.commands.rehearse import rehearse as rehearse
from lab.commands.selftest import selftest as selftest
