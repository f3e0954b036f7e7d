// What listens: the platform, or first the gate that waits for the operator to upgrade its databases.
import { setTimeout as sleep } from 'node:timers/promises'
import { type App, createApp } from '#src/app.ts'
import type { AppOptions } from '#src/infrastructure.ts'
import { openUpgradeGate } from '#src/upgrade-gate.ts'

export interface Served {
  /** Undefined while the platform waits for the operator. */
  app(): App | undefined
  listen(): Promise<string>
  close(): Promise<void>
}

const portAttempts = 500
const portPauseMs = 10

export async function openServed(options: AppOptions): Promise<Served> {
  const { config, log } = options
  let app: App | undefined
  let port = config.port
  let isClosed = false
  let replacing: Promise<void> | undefined
  const gate =
    config.upgrade === 'manual'
      ? await openUpgradeGate(options, () => {
          replacing = replaceGate()
          return replacing
        })
      : undefined
  if (!gate) app = await createApp(options)

  /** The answer to the upgrade is sent by the gate, after the platform listens. */
  async function replaceGate(): Promise<void> {
    const made = await createApp({ ...options, config: { ...config, port } })
    if (isClosed) return made.close()
    app = made
    gate!.close().catch(error => log.error({ err: error }, 'could not close what waited for the upgrade'))
    await listenWhenFree(made).catch(error => {
      // Nothing would answer any more, so the process stops. The answer to the upgrade is sent before.
      setImmediate(() => {
        throw error
      })
      throw error
    })
    log.info({}, 'the databases are upgraded; the platform serves')
  }

  return {
    app: () => app,
    async listen() {
      const url = await (gate ?? app!).listen()
      port = Number(new URL(url).port)
      return url
    },
    async close() {
      isClosed = true
      await replacing?.catch(() => {})
      await app?.close()
      await gate?.close()
    },
  }
}

/** The gate stops listening at once, but not within the same turn of the event loop. */
async function listenWhenFree(app: App): Promise<void> {
  for (let attempt = 1; ; attempt++)
    try {
      return void (await app.listen())
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || attempt === portAttempts) throw error
      await sleep(portPauseMs)
    }
}
