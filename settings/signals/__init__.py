"""What is watched of a fleet, once: recording rules, alerts, log-based metrics, panels and the runbook."""
