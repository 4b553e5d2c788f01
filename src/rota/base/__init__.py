"""Words and means that every stage shares; knows no stage."""
