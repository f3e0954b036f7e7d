-- Decides about a refresh token and acts on the decision, on the locked row of its session: callers on one session take
-- turns. The newest number is replaced; its parent, or one replaced within the reuse window, is told the newest again;
-- anything older is a copy in the wrong hands, and the session ends. A function, so that its plans are kept.

create or replace function auth.refresh_session(
  session_id uuid, given bigint, reuse_seconds integer, idle_seconds integer, lifetime_seconds integer,
  out verdict text, out counter bigint, out aal text, out amr jsonb, out "user" jsonb
) returns record
language plpgsql set search_path = ''
as $$
declare
  s auth.sessions;
  u auth.users;
begin
  select * into s from auth.sessions where id = session_id for update;
  if not found then
    verdict := 'unknown';
    return;
  end if;
  select * into u from auth.users where id = s.user_id;
  verdict := case
    when u.deleted_at is not null then 'unknown'
    when u.banned_until > now() then 'banned'
    when s.not_after < now() or coalesce(s.refreshed_at, s.created_at) < now() - make_interval(secs => idle_seconds) then 'expired'
    when given = s.refresh_token_counter then 'rotate'
    when given = s.refresh_token_counter - 1 then 'repeat'
    when given < s.refresh_token_counter
      and s.rotated_at[s.refresh_token_counter - given] > now() - make_interval(secs => reuse_seconds) then 'repeat'
    when given < s.refresh_token_counter then 'reuse'
    else 'unknown' end;
  if verdict in ('rotate', 'repeat') then
    counter := s.refresh_token_counter + (verdict = 'rotate')::integer;
    aal := s.aal;
    amr := s.amr;
    "user" := auth.user_object(u);
    update auth.sessions t
       set refresh_token_counter = counter, refreshed_at = now(), updated_at = now(),
           rotated_at = case when verdict = 'rotate' then (array_prepend(now(), s.rotated_at))[1:32] else s.rotated_at end,
           tokens_until = greatest(s.tokens_until, now() + make_interval(secs => lifetime_seconds))
     where t.id = session_id;
  elsif verdict = 'reuse' then
    delete from auth.sessions t where t.id = session_id;
    insert into platform.events (kind, payload)
      values ('user.signed_out', jsonb_build_object('user_id', s.user_id, 'email', u.email));
  end if;
end
$$;
alter function auth.refresh_session(uuid, bigint, integer, integer, integer) owner to supabase_auth_admin;
revoke execute on function auth.refresh_session(uuid, bigint, integer, integer, integer) from public;
