-- What each project has used. Hours become days after 90 days.
create table usage_hours (
  project_id uuid not null references projects on delete cascade,
  bucket_start timestamptz not null,
  requests bigint not null default 0,
  bytes_in bigint not null default 0,
  bytes_out bigint not null default 0,
  function_invocations bigint not null default 0,
  -- The last figure of the hour. It holds until the next row of the project.
  storage_bytes bigint not null default 0,
  primary key (project_id, bucket_start)
) with (fillfactor = 70);
create index usage_hours_start on usage_hours (bucket_start);

create table usage_days (
  project_id uuid not null references projects on delete cascade,
  bucket_start timestamptz not null,
  requests bigint not null,
  bytes_in bigint not null,
  bytes_out bigint not null,
  function_invocations bigint not null,
  storage_bytes bigint not null,
  primary key (project_id, bucket_start)
);

-- The last batch of counts of each process. A batch whose commit was not acknowledged is sent again, and counts once.
create table usage_batches (
  node uuid primary key,
  number bigint not null,
  counted_at timestamptz not null default now()
);

-- Writers of usage hold the lock in shared mode. A writer that began before the project was deleted ends before its rows
-- are removed, and a later one sees that the project is deleted.
create function forget_usage() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('usage', 0));
  delete from usage_hours where project_id = new.id;
  delete from usage_days where project_id = new.id;
  return null;
end
$$;
create trigger forget_usage after update of status on projects
  for each row when (new.status = 'deleted') execute function forget_usage();
