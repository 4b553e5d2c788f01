"""Who may plan which shard, until when."""
