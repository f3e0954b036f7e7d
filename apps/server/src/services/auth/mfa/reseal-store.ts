import type { Session } from '#src/kernel/postgres/database.ts'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'

export interface SealedFactor {
  id: string
  secret: string
}

const states: Readonly<Record<string, string>> = { O: 'enable', R: 'enable replica', A: 'enable always' }

/**
 * Triggers of the tenant would run with the rights of the superuser. Those that are enabled always run in every session,
 * whatever its session_replication_role is, so all are disabled meanwhile.
 */
export async function withoutTriggers(session: Session, work: () => Promise<void>): Promise<void> {
  await session.script('lock table auth.mfa_factors in access exclusive mode')
  const triggers = await session.rows<{ name: string; state: string }>(sql`
    select tgname as name, tgenabled::text as state from pg_trigger
     where tgrelid = 'auth.mfa_factors'::regclass and not tgisinternal and tgenabled <> 'D'`)
  const setAll = (clause: (state: string) => string) =>
    session.script(
      triggers
        .map(
          ({ name, state }) => `alter table auth.mfa_factors ${clause(state)} trigger ${identifier(name)};`,
        )
        .join('\n'),
    )
  if (triggers.length > 0) await setAll(() => 'disable')
  await work()
  if (triggers.length > 0) await setAll(state => states[state]!)
}

export const listSecrets = (session: Session, after: string, limit: number) =>
  session.rows<SealedFactor>(sql`
    select id, secret from auth.mfa_factors
     where secret is not null and id > ${after}::uuid order by id limit ${limit}`)

export const saveSecrets = (session: Session, factors: readonly SealedFactor[]) =>
  session.run(sql`
    update only auth.mfa_factors f set secret = g.secret
      from json_to_recordset(${JSON.stringify(factors)}::json) as g (id uuid, secret text) where f.id = g.id`)
