"""4 PLAN: cadence fires x schedules -> occurrences and the shard's cursor, in one transaction."""
