-- How many differences of each kind the last verification has found, like {"rows": 2}. Null if it has found none, or if an
-- earlier release has verified the backup.
alter table backups add column verify_differences jsonb;
