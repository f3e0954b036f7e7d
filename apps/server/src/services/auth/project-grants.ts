import type { ProjectGrants } from '#src/tenancy/project-grants.ts'

/** The project's owner may read, change and reference users and add triggers, but must not change revocations. */
export const authGrants: ProjectGrants = ({ owner, auth }) => `
  grant select, insert, update, delete on all tables in schema auth to ${auth};
  grant execute on function auth.identity_object(auth.identities), auth.factor_object(auth.mfa_factors),
    auth.user_object(auth.users), auth.refresh_session(uuid, bigint, integer, integer, integer) to ${auth};
  grant select, insert, update, delete, references, trigger on all tables in schema auth to ${owner};
  revoke insert, update, delete, references, trigger on auth.revocations from ${owner};
  grant execute on procedure platform.drop_auth_trigger(text, text, boolean),
    platform.set_auth_trigger(text, text, text, boolean), platform.rename_auth_trigger(text, text, text),
    platform.comment_on_auth_trigger(text, text, text) to ${owner};`
