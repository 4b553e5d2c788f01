"""What must also hold: lost leases are rescued, ends take effect, history is kept in bounds, completeness is proved."""
