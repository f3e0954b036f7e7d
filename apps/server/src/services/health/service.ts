// Whether the platform can serve: its database answers, and nothing needs an operator.
import type { Health, ServicesHealth } from '@plinth/contract/health.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

interface HealthDeps {
  control: Database
  version: string
  warnings(): readonly string[]
}

export type HealthService = ReturnType<typeof healthService>

const patienceMs = 2000

export function healthService({ control, version, warnings }: HealthDeps) {
  let asking: Promise<boolean> | undefined

  /** Callers at the same time share one question to the database. */
  function isDatabaseUp(): Promise<boolean> {
    asking ??= answersInTime(control).finally(() => {
      asking = undefined
    })
    return asking
  }

  return {
    async health(): Promise<Health> {
      const isUp = await isDatabaseUp()
      return { status: isUp ? 'ok' : 'unavailable', database: isUp ? 'ok' : 'down', version }
    },
    async services(): Promise<ServicesHealth> {
      const isUp = await isDatabaseUp()
      return {
        status: isUp ? (warnings().length > 0 ? 'degraded' : 'ok') : 'unavailable',
        warnings: [...warnings()],
        services: { database: { status: isUp ? 'ok' : 'down' } },
        version,
      }
    },
  }
}

function answersInTime(control: Database): Promise<boolean> {
  let timer: NodeJS.Timeout
  const late = new Promise<boolean>(resolve => {
    timer = setTimeout(resolve, patienceMs, false)
  })
  const answer = control.row(sql`select 1`).then(
    () => true,
    () => false,
  )
  return Promise.race([answer, late]).finally(() => clearTimeout(timer))
}
