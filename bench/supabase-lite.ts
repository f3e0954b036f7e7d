// The reference of bench/rows-lite.ts: `lite start` of @supabase/lite on an existing Postgres. It has 150 MB of packages,
// so npm installs it outside the repository, once per machine.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { freePort, waitUntilReady } from './reference-server.ts'
import { runToEnd } from './run-to-end.ts'
import type { StagedServer } from './stage.ts'

const packages = ['@supabase/lite@0.10.0', 'postgres@3.4.8']
const installDirectory = join(tmpdir(), 'plinth-bench-supabase-lite-0.10.0')
const program = join(installDirectory, 'node_modules/@supabase/lite/dist/cli/index.js')

export async function installLite(): Promise<void> {
  if (existsSync(program)) return
  mkdirSync(installDirectory, { recursive: true })
  writeFileSync(join(installDirectory, 'package.json'), '{"private":true}\n')
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefix', installDirectory]
  // The whole environment, because it may configure npm.
  await runToEnd('npm', ['install', ...options, ...packages], process.env as Record<string, string>)
}

/** Starts it as its manual describes for production, over the same socket as ours. The publishable key is that of anon. */
export async function startLite(
  directory: string,
  { host, port, user, password }: ServerAddress,
  database: string,
): Promise<StagedServer & { anon: Record<string, string> }> {
  const httpPort = await freePort()
  const key = (kind: string) =>
    `sb_${kind}_${randomBytes(16).toString('hex').slice(0, 22)}_${randomBytes(4).toString('hex')}`
  const publishable = key('publishable')
  mkdirSync(join(directory, 'supabase'))
  writeFileSync(
    join(directory, 'supabase/config.toml'),
    `[api]
port = ${httpPort}

[db]
driver = "postgres"
url = "postgres:///${database}"

[auth]
enabled = true
jwt_secret = "${randomBytes(32).toString('base64url')}"
publishable_key = "${publishable}"
secret_key = "${key('secret')}"
`,
  )
  const { PATH = '', HOME = '' } = process.env
  const child = spawn(process.execPath, [program, 'start', '--no-admin'], {
    cwd: directory,
    stdio: 'ignore',
    env: {
      ...{ PATH, HOME, NODE_ENV: 'production', LITE_TELEMETRY: '0', DO_NOT_TRACK: '1' },
      ...{ PGHOST: host, PGPORT: String(port), PGUSER: user, PGPASSWORD: password },
    },
  })
  process.once('exit', () => child.kill('SIGKILL'))
  const url = `http://127.0.0.1:${httpPort}`
  await waitUntilReady('lite', url, () => child.exitCode !== null)
  return {
    pid: child.pid!,
    url,
    anon: { apikey: publishable },
    async stop() {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    },
  }
}
