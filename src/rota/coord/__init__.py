"""3 WHO: which process may plan which shard, until when. Ownership saves work; the generation is what keeps it right."""
