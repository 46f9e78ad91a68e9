"""Milliseconds that pass when told to."""


class Clock:
    """Stands for the system's clock: the option `clock` of a store."""

    def __init__(self, now: int = 1_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def go_on(self, ms: int) -> int:
        """Lets time pass. Returns the new time."""
        self.now += ms
        return self.now
