"""Prices: what the tool knows for a machine, and the price list of facts/data/prices.csv written anew from a downloaded one."""
