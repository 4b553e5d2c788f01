"""The command line: one module a noun, each a thin door to the same code that the API uses."""
