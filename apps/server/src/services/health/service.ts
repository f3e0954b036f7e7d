// Health of the platform: whether the control database answers, and warnings for the operator.
import type { Health, ServiceHealth, ServicesHealth } from '@plinth/contract/health.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { HealthAudience } from '#src/planes/service.ts'
import { ping } from './store.ts'

export interface HealthDeps {
  control: Database
  version: string
  warnings(): readonly string[]
  /** Of services that show their state, by name. */
  states(audience: HealthAudience): Record<string, ServiceHealth>
}

export type HealthService = ReturnType<typeof healthService>

const timeoutMs = 2000

export function healthService({ control, version, warnings, states }: HealthDeps) {
  let pending: Promise<boolean> | undefined

  /** Concurrent callers share one query. */
  function isDatabaseUp(): Promise<boolean> {
    pending ??= pingWithTimeout(control).finally(() => {
      pending = undefined
    })
    return pending
  }

  return {
    async health(): Promise<Health> {
      const isUp = await isDatabaseUp()
      return { status: isUp ? 'ok' : 'unavailable', database: isUp ? 'ok' : 'down', version }
    },
    async services(audience: HealthAudience): Promise<ServicesHealth> {
      const isUp = await isDatabaseUp()
      return {
        status: isUp ? (warnings().length > 0 ? 'degraded' : 'ok') : 'unavailable',
        warnings: [...warnings()],
        services: { database: { status: isUp ? 'ok' : 'down' }, ...states(audience) },
        version,
      }
    },
  }
}

function pingWithTimeout(control: Database): Promise<boolean> {
  let timer: NodeJS.Timeout
  const timeout = new Promise<boolean>(resolve => {
    timer = setTimeout(resolve, timeoutMs, false)
  })
  const answer = ping(control).then(
    () => true,
    () => false,
  )
  return Promise.race([answer, timeout]).finally(() => clearTimeout(timer))
}
