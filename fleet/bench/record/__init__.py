"""A certified measurement as an entry of the claims ledger."""

from fleet.bench.record.entry import Entry, as_yaml, entry_of

__all__ = ["Entry", "as_yaml", "entry_of"]
