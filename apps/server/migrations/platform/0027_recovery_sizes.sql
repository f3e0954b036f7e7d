-- Bytes of the state that a recovery has prepared, or that a restore puts in place, before compression. A restore keeps its own
-- number, because the backup may be removed before the record of the restore.
alter table pitr_jobs add column bytes bigint;
alter table restores add column bytes bigint;
update restores r set bytes = b.bytes from backups b where b.id = r.backup_id and b.status = 'done';
