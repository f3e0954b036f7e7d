-- The tables of users belong to supabase_auth_admin, and the check of a foreign key on them runs as their owner: with a
-- cast of its own a tenant could run code there. The same is true of the functions of supabase_realtime_admin, which capture
-- changes, while a backup is restored: event triggers that keep casts to json away from them are created last. Whatever such
-- code does, it changes no definition and no right.

create or replace function platform.refuse_as_auth_owner() returns event_trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  if current_user in ('supabase_auth_admin', 'supabase_realtime_admin') then
    raise insufficient_privilege using message = format('nothing is defined as %s', current_user);
  end if;
end
$$;
revoke execute on function platform.refuse_as_auth_owner() from public;

drop event trigger if exists platform_auth_owner;
create event trigger platform_auth_owner on ddl_command_start execute function platform.refuse_as_auth_owner();
alter event trigger platform_auth_owner enable always;
