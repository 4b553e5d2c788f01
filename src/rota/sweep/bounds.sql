-- name: transaction_bound (idle_ms, lock_ms)
-- For this transaction alone: a keeper that freezes in it loses it, and with it every lock, after so long; and whoever
-- waits for a lock on a partitioned table makes everybody behind it wait, so it gives up early.
SELECT set_config('idle_in_transaction_session_timeout', $1::text, true), set_config('lock_timeout', $2::text, true);
