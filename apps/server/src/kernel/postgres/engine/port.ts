import { randomInt } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'

const portFile = 'postgres.port'

/** The port of the last start, so that connection strings people have copied keep working. */
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

/** Below the ports that systems give to outgoing connections, which could otherwise take it during a restart. */
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
