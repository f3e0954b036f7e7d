-- A project can be copied to another one, such as a branch.

-- Jobs of a copy are switched off until they are saved again.
alter table jobs add column is_active boolean not null default true;
drop index jobs_due;
create index jobs_due on jobs (next_run_at) where is_active;

-- A copy has the same versions of files as its origin.
alter table stored_files drop constraint stored_files_pkey, add primary key (project_id, version);
drop index stored_files_project;
