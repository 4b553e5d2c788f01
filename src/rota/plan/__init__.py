"""Cadence fires and schedules become occurrences, together with the cursor that says how far."""
