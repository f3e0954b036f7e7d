import { randomInt } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'

const portFile = 'postgres.port'

/** The port of the last start, so that copied connection strings stay valid. */
export function rememberedPort(dataDir: string): number | undefined {
  try {
    const port = Number(readFileSync(join(dataDir, portFile), 'utf8'))
    return Number.isInteger(port) && port > 1023 && port < 65_536 ? port : undefined
  } catch {
    return undefined
  }
}

export function rememberPort(dataDir: string, port: number): void {
  if (rememberedPort(dataDir) !== port) writeFileSync(join(dataDir, portFile), `${port}\n`, { mode: 0o600 })
}

/** Below the range for outgoing connections, one of which could otherwise take the port during a restart. */
export function randomPort(): number {
  return randomInt(20_000, 30_000)
}

export function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
