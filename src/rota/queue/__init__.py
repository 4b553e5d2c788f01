"""5 QUEUE: which due occurrences the next worker gets. The queue is the table of pending occurrences itself."""
