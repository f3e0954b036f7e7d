-- Why something failed, or what it found.
alter table audit add column details text;

-- Every backup is verified at its interval, and not only the newest one once.
drop index backups_unverified;

-- When a verification found the stored bytes damaged or missing. Null once a backup has copied them again.
alter table backup_files add column damaged_at timestamptz;
