-- However a session or a user goes, by the platform or by a statement of the project's owner, the access tokens that
-- are still about are noted. A minute is added to their end: clocks differ, and a token is signed a moment after its
-- session was written.

create or replace function auth.note_ended_sessions() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  delete from auth.revocations where until < now() - interval '1 minute';
  insert into auth.revocations (subject, until)
    select id, tokens_until + interval '1 minute' from ended where tokens_until + interval '1 minute' > now()
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

-- Somebody with an id that was deleted lately is somebody again.
create or replace function auth.note_new_users() returns trigger
language plpgsql security definer set search_path = ''
as $$
begin
  update auth.revocations r set until = now(), xid = pg_current_xact_id() from made where r.subject = made.id;
  return null;
end
$$;
alter function auth.note_new_users() owner to supabase_auth_admin;

create or replace trigger note_new after insert on auth.users
  referencing new table as made for each statement execute function auth.note_new_users();
create or replace trigger note_ended after delete on auth.sessions
  referencing old table as ended for each statement execute function auth.note_ended_sessions();
create or replace trigger note_deleted after delete on auth.users
  referencing old table as changed for each statement execute function auth.note_banned_users();
create or replace trigger note_banned after update on auth.users
  referencing old table as before new table as changed for each statement execute function auth.note_banned_users();
