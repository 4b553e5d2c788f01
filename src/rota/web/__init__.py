"""Doors: the HTTP API, its documents and its health. Reads and calls; decides nothing about time or work."""
