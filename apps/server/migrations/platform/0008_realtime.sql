-- Projects in whose databases triggers may note changes, and until when some node listens unless it says so again. What a
-- node that died has left on is found here.
create table realtime_captures (
  project_id uuid primary key references projects on delete cascade,
  until timestamptz not null
);
create index realtime_captures_until on realtime_captures (until);
