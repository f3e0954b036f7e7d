-- Which process keeps the caches of the projects in its memory, while there is no Redis. The row stays behind when
-- that process dies or loses its lock, and then tells the next one to wait until it has surely stopped answering.
create table cache_keeper (
  only_row boolean primary key default true check (only_row),
  keeper uuid not null
);
