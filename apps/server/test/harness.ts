// Starts a real platform for a test file: HTTP on a free port, with its own control database and template on the Postgres of
// this run.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { adminApi } from '@plinth/contract/admin.ts'
import { type Client, client } from '@plinth/contract/client.ts'
import { platformApi } from '@plinth/contract/platform.ts'
import { type CreatedProject, projectsApi } from '@plinth/contract/projects.ts'
import { type App, createApp } from '#src/app.ts'
import { type Config, readConfig } from '#src/config.ts'
import { createLog } from '#src/kernel/log.ts'
import type { S3Timeouts } from '#src/kernel/objects/s3.ts'
import { guardedSettings, type OwnSession, withClient } from '#src/kernel/postgres/database.ts'
import { parseDatabaseUrl, type ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { functionDirs } from '#src/services/functions/place.ts'
import { databasesOf } from '#src/tenancy/provision.ts'
import type { OwnServer } from './own-server.ts'

export interface TestPlatform {
  url: string
  adminToken: string
  controlPlaneSecret: string
  config: Config
  app: App
  /** The superuser of the Postgres server. */
  address: ServerAddress
  control: string
  /** Every line logged so far. */
  logged: string[]
  projects: Client<typeof projectsApi>
  platform: Client<typeof platformApi>
  admin: Client<typeof adminApi>
  createProject(name?: string): Promise<CreatedProject>
  /** Calls any path; JSON bodies are encoded, JSON answers parsed. */
  call(method: string, path: string, options?: CallOptions): Promise<Reply>
  asSuperuser<T>(database: string, work: (session: OwnSession) => Promise<T>): Promise<T>
  /** The opaque database name of a project. */
  refOf(projectId: string): Promise<string>
  stop(): Promise<void>
}

export interface CallOptions {
  token?: string
  apikey?: string
  body?: unknown
  headers?: Record<string, string>
}
export interface Reply {
  status: number
  headers: Headers
  body: any
}

export interface PlatformOptions {
  /** Settings as environment variables. */
  settings?: Record<string, string>
  /** Mounts routes of the test before the platform listens. */
  mount?(app: App): void
  /** Joins a running platform as a second node. */
  beside?: TestPlatform
  /** Another address of the Postgres of this run, such as a proxy. */
  address?: ServerAddress
  /** The cluster directory of Postgres, as with the embedded one. */
  clusterDir?: string
  /** The bcrypt cost for passwords of users, by default the minimum. */
  bcryptCost?: number
  /** For how long the copy of a branch may hold requests. */
  branchHoldMs?: number
  /** When a request to S3 has failed. */
  s3Timeouts?: S3Timeouts
  /** A separate Postgres, see own-server.ts. `stop` does not drop its databases. */
  server?: OwnServer | undefined
}

export function testServer(): ServerAddress {
  const url = process.env['TEST_DATABASE_URL']
  if (!url) throw new Error('These tests need the Postgres of the test run: npm test -- <file>')
  return parseDatabaseUrl(url).address
}

/** Copies the control database and template that scripts/test.ts has created, which is faster than creating them. */
export async function copySeed(control: string): Promise<void> {
  const seed = process.env['TEST_DATABASE_SEED']
  if (!seed) return
  await withClient(testServer(), 'postgres', guardedSettings, async session => {
    for (const part of ['', '_template'])
      await session.script(`create database ${control}${part} template ${seed}${part}`)
  })
}

export async function startPlatform({
  settings = {},
  mount,
  beside,
  server,
  bcryptCost = 4,
  branchHoldMs,
  s3Timeouts,
  address = server?.address ?? beside?.address ?? testServer(),
  clusterDir = server?.clusterDir,
}: PlatformOptions = {}): Promise<TestPlatform> {
  const control = beside?.control ?? `t_${randomBytes(6).toString('hex')}`
  const adminToken = beside?.adminToken ?? randomBytes(24).toString('hex')
  const controlPlaneSecret = beside?.controlPlaneSecret ?? randomBytes(24).toString('hex')
  const logged: string[] = []
  // Files of the projects. A node that joins another one uses the same directory.
  const dataDir = beside?.config.dataDir ?? (await mkdtemp(join(tmpdir(), 'plinth-files-')))
  if (!beside && !server) await copySeed(control)
  const config = readConfig({
    PLATFORM_PORT: '0',
    // Tests pass on a machine with little free disk space.
    PLATFORM_DISK_RESERVE_MB: '0',
    RUNTIME_PORT: '0',
    PLATFORM_LOG_LEVEL: 'debug',
    // Set by scripts/test-redis.ts.
    REDIS_URL: process.env['TEST_REDIS_URL'],
    PLATFORM_DATA_DIR: dataDir,
    // Nodes of one platform have the same settings.
    PLATFORM_OUTBOUND_ALLOW: beside?.config.outboundAllow?.join(','),
    ...settings,
  })
  const app = await createApp({
    config,
    server: {
      address,
      control,
      ...(clusterDir !== undefined && { clusterDir }),
      ...(server && { embedded: { place: server.place, settings: {} } }),
    },
    controlPlaneSecret,
    adminToken: config.adminToken ?? adminToken,
    log: createLog(config.logLevel, { write: line => void logged.push(line) }),
    bcryptCost,
    ...(branchHoldMs !== undefined && { branchHoldMs }),
    ...(s3Timeouts && { s3Timeouts }),
  })
  mount?.(app)
  const url = await app.listen()
  const options = { baseUrl: url, token: adminToken }
  const asSuperuser = <T>(database: string, work: (session: OwnSession) => Promise<T>) =>
    withClient(address, database, guardedSettings, work)
  const projects = client(projectsApi, options)

  return {
    url,
    adminToken,
    controlPlaneSecret,
    config,
    app,
    address,
    control,
    logged,
    projects,
    platform: client(platformApi, options),
    admin: client(adminApi, options),
    createProject: (name = `test ${randomBytes(4).toString('hex')}`) => projects.create({ body: { name } }),
    call: (method, path, callOptions = {}) => call(url + path, method, callOptions),
    asSuperuser,
    refOf: async id =>
      (await app.control.row<{ ref: string }>(sql`select ref from projects where id = ${id}`))!.ref,
    async stop() {
      let refs: { ref: string }[] = []
      try {
        if (!beside && !server)
          refs = await app.control.rows(sql`select ref from projects where status <> 'deleted'`)
      } finally {
        // An open platform would keep the test process alive, so close it even if the database is down.
        await app.close()
      }
      if (beside) return
      for (const path of [...Object.values(functionDirs(dataDir)), dataDir])
        await rm(path, { recursive: true, force: true })
      if (server) return
      await asSuperuser('postgres', async session => {
        await session.script(`alter database ${control}_template is_template false`)
        const copies = refs.flatMap(({ ref }) => databasesOf(ref))
        for (const database of [...copies, `${control}_template`, control])
          await session.script(`drop database if exists ${database} with (force)`)
        for (const { ref } of refs)
          await session.script(`drop role if exists ${ref}_owner, ${ref}_api, ${ref}_svc, ${ref}_auth`)
      })
    },
  }
}

/** Waits for the project upgrades that run in the background after a start. */
export async function untilUpgraded({ app }: TestPlatform): Promise<void> {
  const { projectVersion } = app.cluster
  const outdated = sql`
    select from projects where status in ('active', 'suspended') and schema_version <> ${projectVersion}`
  for (const end = performance.now() + 180_000; await app.control.row(outdated); ) {
    if (performance.now() > end) throw new Error('Some project was not upgraded')
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

export async function call(
  url: string,
  method: string,
  { token, apikey, body, headers }: CallOptions,
): Promise<Reply> {
  const isText = typeof body === 'string'
  const reply = await fetch(url, {
    method,
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(apikey !== undefined && { apikey }),
      ...headers,
    },
    ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
    redirect: 'manual',
  })
  const text = await reply.text()
  const isJson = reply.headers.get('content-type')?.startsWith('application/json') && text !== ''
  return { status: reply.status, headers: reply.headers, body: isJson ? JSON.parse(text) : text }
}
