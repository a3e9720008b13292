"""Autopilot's rules as ValidatingAdmissionPolicies."""
