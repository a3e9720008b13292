"""A certified measurement as an entry of the claims ledger."""

from benchmark.record.entry import Entry, entry_of
from benchmark.record.ledger_file import add

__all__ = ["Entry", "add", "entry_of"]
