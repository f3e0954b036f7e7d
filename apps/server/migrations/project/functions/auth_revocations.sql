-- However a session or a user goes, by the platform or by a statement of the project's owner, the access tokens that
-- are still about are noted.

create or replace function auth.note_ended_sessions() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  delete from auth.revocations where until < now() - interval '1 minute';
  insert into auth.revocations (subject, until)
    select id, tokens_until from ended where tokens_until > now()
    on conflict (subject) do update set until = greatest(excluded.until, auth.revocations.until), xid = excluded.xid;
  return null;
end
$$;
alter function auth.note_ended_sessions() owner to supabase_auth_admin;

-- A ban that is lifted is noted as one that has ended, so that every node hears of it. A user who is gone is noted for
-- as long as a token can live.
create or replace function auth.note_banned_users() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  if tg_op = 'DELETE' then
    insert into auth.revocations (subject, until)
      select id, now() + interval '8 days' from changed
      on conflict (subject) do update set until = excluded.until, xid = excluded.xid;
  else
    insert into auth.revocations (subject, until)
      select n.id, case when n.deleted_at is not null then now() + interval '8 days'
                        else coalesce(n.banned_until, now()) end
        from changed n join before o using (id)
       where n.banned_until is distinct from o.banned_until or n.deleted_at is distinct from o.deleted_at
      on conflict (subject) do update set until = excluded.until, xid = excluded.xid;
  end if;
  return null;
end
$$;
alter function auth.note_banned_users() owner to supabase_auth_admin;

create or replace trigger note_ended after delete on auth.sessions
  referencing old table as ended for each statement execute function auth.note_ended_sessions();
create or replace trigger note_deleted after delete on auth.users
  referencing old table as changed for each statement execute function auth.note_banned_users();
create or replace trigger note_banned after update on auth.users
  referencing old table as before new table as changed for each statement execute function auth.note_banned_users();
