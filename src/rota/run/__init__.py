"""6 LEASE -> ATTEMPT -> OUTCOME. Start reading in `executor`."""
