"""A certified measurement as an entry of the claims ledger."""

from fleet.bench.record.entry import Entry, entry_of
from fleet.bench.record.ledger_file import add

__all__ = ["Entry", "add", "entry_of"]
