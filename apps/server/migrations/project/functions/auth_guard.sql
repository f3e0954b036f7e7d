-- The tables of users belong to supabase_auth_admin, and the check of a foreign key on them runs as their owner: with a
-- cast of its own a tenant could run code there. Whatever that code does, it changes no definition and no right.

create or replace function platform.refuse_as_auth_owner() returns event_trigger
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
  if current_user = 'supabase_auth_admin' then
    raise insufficient_privilege using message = 'nothing is defined as the owner of the tables of users';
  end if;
end
$$;
revoke execute on function platform.refuse_as_auth_owner() from public;

drop event trigger if exists platform_auth_owner;
create event trigger platform_auth_owner on ddl_command_start execute function platform.refuse_as_auth_owner();
alter event trigger platform_auth_owner enable always;
