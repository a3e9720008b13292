"""Compares a recording with another one."""
