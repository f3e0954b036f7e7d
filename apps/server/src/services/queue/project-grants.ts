import type { ProjectGrants } from '#src/tenancy/project-grants.ts'

/** The owner creates and owns the queues. service_role gets rights on the messages of all queue tables. */
export const queueGrants: ProjectGrants = ({ owner }) => {
  const defaults = `alter default privileges for role ${owner} in schema pgmq grant`
  return `
    grant usage, create on schema pgmq to ${owner};
    grant select, insert, update, delete on pgmq.meta to ${owner};
    grant execute on all functions in schema pgmq to ${owner};
    ${defaults} select, insert, update, delete, truncate on tables to service_role;
    ${defaults} usage, select on sequences to service_role;
    do $$
    begin
      -- Where the tenant has made a schema of this name, it is the tenant's.
      if exists (select from pg_namespace n join pg_roles r on r.oid = n.nspowner
                  where n.nspname = 'pgmq_public' and r.rolname = current_user) then
        grant usage on schema pgmq_public to ${owner};
        grant execute on all functions in schema pgmq_public to ${owner};
      end if;
    end
    $$;`
}
