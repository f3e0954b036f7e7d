-- Why something failed, or what it found.
alter table audit add column details text;

-- Every backup is verified at its interval, and not only the newest one once.
drop index backups_unverified;
