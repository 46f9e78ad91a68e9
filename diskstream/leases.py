"""Leases, as those who read one see them: saying that it is in use, and removing it. `Store.lease` makes them."""

from diskstream.engine.lease import release, touch

__all__ = ["release", "touch"]
