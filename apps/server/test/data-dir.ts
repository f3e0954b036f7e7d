// Reads a platform's data directory and its embedded Postgres from outside the platform.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'

export const readJson = (file: string) => JSON.parse(fs.readFileSync(file, 'utf8'))
export const secretNames = ['CONTROL_PLANE_SECRET', 'PLATFORM_ADMIN_TOKEN', 'POSTGRES_PASSWORD']
export const secretsOf = (dataDir: string): Record<string, string> => readJson(join(dataDir, 'secrets.json'))
export const adminToken = (dataDir: string) => secretsOf(dataDir)['PLATFORM_ADMIN_TOKEN']!
export const modeOf = (path: string) => fs.statSync(path).mode & 0o777

/** The content of platform.json, which exists while a platform runs. */
export function platformInfo(dataDir: string): { pid: number; url: string; version: string } | undefined {
  const file = join(dataDir, 'platform.json')
  return fs.existsSync(file) ? readJson(file) : undefined
}

/** Process ids of the postmasters that run on this data directory. */
export const postmastersOf = (dataDir: string): number[] => postmastersIn(engineFiles(dataDir).clusterDir)

export function postmastersIn(clusterDir: string): number[] {
  const { stdout } = spawnSync('ps', ['-A', '-ww', '-o', 'pid=,args='], { encoding: 'utf8' })
  return stdout
    .split('\n')
    .filter(line => line.includes(`-D ${clusterDir} `))
    .map(line => Number.parseInt(line, 10))
}

export const postmasterPid = (dataDir: string) =>
  Number.parseInt(fs.readFileSync(join(engineFiles(dataDir).clusterDir, 'postmaster.pid'), 'utf8'), 10)

export function assertStopped(dataDir: string): void {
  assert.deepEqual(postmastersOf(dataDir), [], 'no Postgres is running')
  assert.ok(
    !fs.existsSync(join(engineFiles(dataDir).clusterDir, 'postmaster.pid')),
    'Postgres has shut down cleanly',
  )
  for (const name of ['platform.json', 'platform.lock'])
    assert.ok(!fs.existsSync(join(dataDir, name)), `${name} is removed`)
}

/** Connects as the superuser of the embedded Postgres. */
export async function connectAsSuperuser(dataDir: string, database = 'plinth'): Promise<pg.Client> {
  const client = new pg.Client({
    host: join(dirname(engineFiles(dataDir).clusterDir), 'run'),
    port: Number(fs.readFileSync(join(dataDir, 'postgres.port'), 'utf8')),
    user: 'postgres',
    password: secretsOf(dataDir)['POSTGRES_PASSWORD']!,
    database,
  })
  client.on('error', () => {})
  await client.connect()
  return client
}
