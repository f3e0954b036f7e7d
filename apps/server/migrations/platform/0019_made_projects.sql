-- A project can be made from a backup or from another project. That takes longer than a request, so a task makes it.

-- If the node dies, another one continues; other projects in creation are removed then.
alter table projects add column is_resumable boolean not null default false;

-- A restore as a new project has no state before.
alter table restores alter column before_backup_id drop not null, add column new_project_id uuid;
alter table backup_tasks drop constraint backup_tasks_kind_check,
  add check (kind in ('backup', 'verification', 'restore', 'undo', 'new_project'));
