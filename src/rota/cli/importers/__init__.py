"""Other schedulers' definitions, read into ours.

Each module has `read(text, options) -> Imported`: documents in the form of `rota apply`, and a note for everything
that could not be carried over as it was. Nothing is executed and nothing is guessed in silence.
"""

from rota.cli.importers.imported import Imported, ImportOptions, ImportRefused

__all__ = ["ImportOptions", "ImportRefused", "Imported"]
