-- The times of these rows were cut to milliseconds. A cut last_at is before the backup that has set it.
update backup_files set last_at = last_at + interval '999 microseconds'
 where last_at = date_trunc('milliseconds', last_at);

-- A backup that a task needs must not be removed. With the cascade its task was removed as well, and its restore had no end.
alter table backup_tasks drop constraint backup_tasks_backup_id_fkey,
  add foreign key (backup_id) references backups;
