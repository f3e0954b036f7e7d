// A shadow database: a second, newly created database of a project, in which migrations run to compute the schema they
// produce. It is dropped after the work. After a crash, the next use or the deletion of the project drops it.
import { Refusal } from '#src/kernel/errors.ts'
import type { Abandoned } from '#src/kernel/postgres/abandoned.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'
import { type Cluster, controlSettings } from './cluster.ts'
import type { Logins } from './logins.ts'
import { defaultPrivilegesOf, type GrantsFor } from './project-grants.ts'
import { dropDatabase, shadowOf } from './provision.ts'

export interface ShadowDatabases {
  /** Runs the work in a session of the project's owner. One at a time per project; others wait. */
  within<T>(ref: string, work: (session: Session) => Promise<T>): Promise<T>
  close(): void
}

/** Timeout of each statement. */
const timeoutMs = 300_000
const dropMs = 5000

export function createShadowDatabases(
  control: Database,
  cluster: Cluster,
  logins: Logins,
  abandoned: Abandoned,
  grants: GrantsFor,
): ShadowDatabases {
  const closing = new AbortController()
  const { signal } = closing
  return {
    close: () => closing.abort(),
    within: (ref, work) =>
      withClient(
        cluster.address,
        cluster.control,
        controlSettings,
        async lockSession => {
          const name = shadowOf(ref)
          await lockSession.run(sql`select pg_advisory_lock(hashtext(${name}))`)
          const drop = () => dropDatabase(lockSession, name, dropMs)
          if (!(await drop())) throw inUse()
          try {
            await lockSession.script(
              `create database ${identifier(name)} template ${identifier(cluster.template)} connection limit 0`,
            )
            await withClient(cluster.address, name, guardedSettings, session =>
              session.script(`${grants(ref, name)} ${defaultPrivilegesOf(ref)}`),
            )
            await logins.check(control, ref, 'owner')
            return await withClient(logins.address(ref, 'owner'), name, ownerSettings, work, {
              signal,
              timeoutMs,
              onAbandoned: processId => abandoned.add(`${ref}:owner`, { processId, database: name }),
            })
          } finally {
            // If the drop fails, the next use or the deletion of the project drops it.
            await drop().catch(() => {})
          }
        },
        { signal },
      ),
  }
}

const inUse = () =>
  new Refusal(
    'object_busy',
    'A statement of an earlier request still runs in the database in which migrations are tried out; try again when it has ended',
  )

const ownerSettings = {
  statement_timeout: `${timeoutMs}ms`,
  application_name: 'plinth',
  role: 'none',
  local_preload_libraries: '',
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
}
