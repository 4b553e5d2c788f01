"""The one way in which a timing is refused."""


class TimingError(ValueError):
    """A timing cannot be accepted. `field` is its path (`timing.cron`), `code` is stable, `hint` says what to do."""

    def __init__(self, message: str, *, field: str = "timing", code: str = "bad_timing", hint: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.code = code
        self.hint = hint
