import type { ProjectGrants } from '#src/tenancy/project-grants.ts'

/** Supabase applications alter the publication and create policies on realtime.messages, which needs ownership. */
export const realtimeGrants: ProjectGrants = ({ owner }) => `
  alter publication supabase_realtime owner to ${owner};
  grant usage on schema realtime to ${owner};
  alter table if exists realtime.messages owner to ${owner};
  alter function platform.prepare_judge(oid, text, "char") owner to ${owner};`
