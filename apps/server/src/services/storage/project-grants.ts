import type { ProjectGrants } from '#src/tenancy/project-grants.ts'

/** The owner needs these rights to create policies on the tables. */
export const storageGrants: ProjectGrants = ({ owner }) => `
  grant usage on schema storage to ${owner};
  alter table if exists storage.buckets owner to ${owner};
  alter table if exists storage.objects owner to ${owner};`
