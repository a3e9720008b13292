"""Helm charts of a rehearsal, served at their public addresses by a proxy of the lab: the real provider installs them with its own Helm."""
