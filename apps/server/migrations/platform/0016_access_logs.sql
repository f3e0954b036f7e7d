-- One row for each project that has logged. Writers lock it, so positions ascend in the order of commits.
create table project_log_state (
  project_id uuid primary key references projects on delete cascade,
  -- The next position. At least the time in microseconds since 1970, so that none is used twice, even if the last commits
  -- are lost in a crash of the server.
  next_position bigint not null,
  -- The size of the blocks.
  block_bytes bigint not null default 0
) with (fillfactor = 50);

-- The access log of a project: one row for the entries of a project that a node writes at a time.
create table access_log_blocks (
  project_id uuid not null references projects on delete cascade,
  -- The position of its first entry.
  position bigint not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  -- The entries, encoded by services/logs/block.ts.
  content text not null,
  primary key (project_id, position)
);

-- The id of a line is its position, in one order with the entries of blocks.
alter table project_logs alter column id drop identity;

-- Writes lines and a block. The ranks of lines and the entries of the block are relative to the position that it takes.
create function append_project_logs(
  written_project uuid,
  positions int,
  lines json,
  block text,
  block_first_at timestamptz,
  block_last_at timestamptz
) returns void language plpgsql as $$
declare
  first_position bigint;
  size bigint := case when block is null then 0 else octet_length(block) + 150 end;
begin
  -- Logs need no flush to disk of their own, and a project whose row is locked must not delay others for long.
  perform set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '2s', true);
  insert into project_log_state as state (project_id, next_position, block_bytes)
    select id, floor(extract(epoch from clock_timestamp()) * 1e6)::bigint + positions, size
      from projects where id = written_project and status <> 'deleted'
    on conflict (project_id) do update
      set next_position = greatest(state.next_position, excluded.next_position - positions) + positions,
          block_bytes = state.block_bytes + size
    returning next_position - positions into first_position;
  if first_position is null then return; end if;
  -- A new statement sees a project that was deleted while this one waited for the lock.
  perform from projects where id = written_project and status <> 'deleted';
  if not found then
    delete from project_log_state where project_id = written_project;
    return;
  end if;
  if lines is not null then
    insert into project_logs (project_id, id, source, name, at, level, event, message, request_id, facts)
      select written_project, first_position + line.rank, line.source, line.name, line.at, line.level, line.event,
             line.message, line.request_id, line.facts
        from json_to_recordset(lines) as line(
          rank int, source text, name text, at timestamptz, level text, event text, message text, request_id text,
          facts jsonb);
  end if;
  if block is not null then
    insert into access_log_blocks (project_id, position, first_at, last_at, content)
      values (written_project, first_position, block_first_at, block_last_at, block);
  end if;
end
$$;

create or replace function forget_project_logs() returns trigger language plpgsql as $$
begin
  -- First, because it waits for a writer that has locked the row.
  delete from project_log_state where project_id = new.id;
  delete from project_logs where project_id = new.id;
  delete from access_log_blocks where project_id = new.id;
  return null;
end
$$;
