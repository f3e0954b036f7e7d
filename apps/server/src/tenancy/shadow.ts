// A second, empty database of a project, as new as on its first day, in which migrations can be run to see what comes
// of them. It lives as long as the work takes; one left behind by a crash goes with the next, or with the project.
import { Refusal } from '#src/kernel/errors.ts'
import type { Abandoned } from '#src/kernel/postgres/abandoned.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'
import { type Cluster, controlSettings } from './cluster.ts'
import type { Logins } from './logins.ts'
import { dropDatabase, grants, shadowOf } from './provision.ts'

export interface Shadows {
  /** Given a session of the project's owner. One at a time per project: whoever else asks waits. */
  within<T>(ref: string, work: (session: Session) => Promise<T>): Promise<T>
  close(): void
}

/** For each statement of the migrations. */
const timeoutMs = 300_000
const dropMs = 5000

export function createShadows(
  control: Database,
  cluster: Cluster,
  logins: Logins,
  abandoned: Abandoned,
): Shadows {
  const closing = new AbortController()
  const { signal } = closing
  return {
    close: () => closing.abort(),
    within: (ref, work) =>
      withClient(
        cluster.address,
        cluster.control,
        controlSettings,
        async keeper => {
          const name = shadowOf(ref)
          await keeper.run(sql`select pg_advisory_lock(hashtext(${name}))`)
          const drop = () => dropDatabase(keeper, name, dropMs)
          if (!(await drop())) throw inUse()
          try {
            await keeper.script(
              `create database ${identifier(name)} template ${identifier(cluster.template)} connection limit 0`,
            )
            await withClient(cluster.address, name, guardedSettings, session =>
              session.script(grants(ref, name)),
            )
            await logins.check(control, ref, 'owner')
            return await withClient(logins.address(ref, 'owner'), name, ownerSettings, work, {
              signal,
              timeoutMs,
              onAbandoned: processId => abandoned.add(`${ref}:owner`, { processId, database: name }),
            })
          } finally {
            // One that cannot be dropped now is dropped before the next is made, or with the project.
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
