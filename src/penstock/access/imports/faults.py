"""What is wrong with a file to import: the line, and why. Nothing is imported then."""


class ImportFault(ValueError):  # noqa: N818 - as the other faults
    """A line that cannot be imported."""

    def __init__(self, name: str, line: int, what: str) -> None:
        super().__init__(f"{name} line {line}: {what}")
        self.line = line
