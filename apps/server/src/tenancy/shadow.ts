// A second, empty database of a project, as new as on its first day, in which migrations can be run to see what comes
// of them. It lives as long as the work takes; one left behind by a crash goes with the next, or with the project.
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { identifier, sql } from '#src/kernel/postgres/sql.ts'
import { type Cluster, controlSettings } from './cluster.ts'
import type { Logins } from './logins.ts'
import { grants, shadowOf } from './provision.ts'

export interface Shadows {
  /** Given a session of the project's owner. One at a time per project: whoever else asks waits. */
  within<T>(ref: string, work: (session: Session) => Promise<T>): Promise<T>
}

export function createShadows(control: Database, cluster: Cluster, logins: Logins): Shadows {
  return {
    within: (ref, work) =>
      withClient(cluster.address, cluster.control, controlSettings, async keeper => {
        const name = shadowOf(ref)
        await keeper.run(sql`select pg_advisory_lock(hashtext(${name}))`)
        const drop = () => keeper.script(`drop database if exists ${identifier(name)} with (force)`)
        await drop()
        try {
          await keeper.script(
            `create database ${identifier(name)} template ${identifier(cluster.template)} connection limit 0`,
          )
          await withClient(cluster.address, name, guardedSettings, session =>
            session.script(grants(ref, name)),
          )
          await logins.check(control, ref, 'owner')
          return await withClient(logins.address(ref, 'owner'), name, ownerSettings, work)
        } finally {
          await drop()
        }
      }),
  }
}

const ownerSettings = {
  application_name: 'plinth',
  role: 'none',
  local_preload_libraries: '',
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
}
