"""Signals of a fleet: recording rules, alerts, log-based metrics, panels and the runbook."""
