-- The caller, as policies see it. The claims are set per request and end with it.

create or replace function auth.jwt() returns jsonb
language sql stable parallel safe set search_path = ''
as $$ select coalesce(nullif(pg_catalog.current_setting('request.jwt.claims', true), ''), '{}')::pg_catalog.jsonb $$;

-- Without a SET clause, so that the planner can inline them into policies; hence every name is qualified.
create or replace function auth.uid() returns uuid
language sql stable parallel safe
as $$ select (nullif(pg_catalog.current_setting('request.jwt.claims', true), '')::pg_catalog.jsonb
  operator(pg_catalog.->>) 'sub')::pg_catalog.uuid $$;

create or replace function auth.role() returns text
language sql stable parallel safe
as $$ select nullif(pg_catalog.current_setting('request.jwt.claims', true), '')::pg_catalog.jsonb
  operator(pg_catalog.->>) 'role' $$;

create or replace function auth.email() returns text
language sql stable parallel safe
as $$ select nullif(pg_catalog.current_setting('request.jwt.claims', true), '')::pg_catalog.jsonb
  operator(pg_catalog.->>) 'email' $$;
