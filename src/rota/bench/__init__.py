"""Measure rota on this machine, and calculate what a load needs."""
