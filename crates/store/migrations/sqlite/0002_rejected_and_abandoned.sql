-- A rejected reprocess waits for its next attempt. `reprocess` is 0 where none is asked for, else one more than its rejections.
CREATE INDEX partition_control_rejected ON partition_control (source, reprocess, customer_id, query_name, logical_date)
    WHERE reprocess > 1 AND lane IS NULL AND paused_at IS NULL;

-- An abandoned attempt keeps the lease that it let run out; until now only its message told.
UPDATE runs SET lease_until = completed_at
    WHERE workload = 'extract' AND state = 'dead' AND verdict = 'failed' AND error_message = 'lease expired';
