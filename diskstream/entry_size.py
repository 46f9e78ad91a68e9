"""How large an entry may be, for those who make entries of what they read."""

from diskstream._native import MAX_ENTRY_BYTES, check_rows

__all__ = ["MAX_ENTRY_BYTES", "check_rows"]
