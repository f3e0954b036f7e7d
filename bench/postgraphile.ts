// The reference of bench/graphql-postgraphile.ts: PostGraphile on an existing Postgres. It has 300 MB of packages, so npm
// installs it outside the repository, once per machine.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { freePort, waitUntilReady } from './reference-server.ts'
import { runToEnd } from './run-to-end.ts'
import type { StagedServer } from './stage.ts'

export const version = '5.1.5'
const installDirectory = join(tmpdir(), `plinth-bench-postgraphile-${version}`)
const program = join(installDirectory, 'server.mjs')
/** More connections were not faster. */
const poolSize = 10

export async function installPostgraphile(): Promise<void> {
  mkdirSync(installDirectory, { recursive: true })
  copyFileSync(join(import.meta.dirname, 'postgraphile-server.mjs'), program)
  if (existsSync(join(installDirectory, 'node_modules/postgraphile'))) return
  writeFileSync(join(installDirectory, 'package.json'), '{"private":true}\n')
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefix', installDirectory]
  // The whole environment, because it may configure npm.
  await runToEnd(
    'npm',
    ['install', ...options, `postgraphile@${version}`],
    process.env as Record<string, string>,
  )
}

/** Starts it over the same socket as ours. Every request has the role anon. */
export async function startPostgraphile(
  { host, port, user, password }: ServerAddress,
  database: string,
): Promise<StagedServer> {
  const httpPort = await freePort()
  const { PATH = '', HOME = '' } = process.env
  const child = spawn(process.execPath, [program, String(httpPort), String(poolSize)], {
    cwd: installDirectory,
    stdio: 'ignore',
    env: {
      ...{ PATH, HOME, NODE_ENV: 'production' },
      ...{ PGHOST: host, PGPORT: String(port), PGUSER: user, PGPASSWORD: password, PGDATABASE: database },
    },
  })
  process.once('exit', () => child.kill('SIGKILL'))
  const url = `http://127.0.0.1:${httpPort}`
  await waitUntilReady('PostGraphile', url, () => child.exitCode !== null)
  return {
    pid: child.pid!,
    url,
    async stop() {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    },
  }
}
