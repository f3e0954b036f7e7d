// A signed-in user with files in a bucket whose built-in policies give each user a folder, on a platform started as in
// production; and a server of plain files.
import { createHash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { signJwt } from '../apps/server/src/kernel/crypto/jwt.ts'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { engineIn, projectsAt, refOf, type Stage, type StagedServer, startMain } from './stage.ts'

const bucket = 'user-files'
export const megabyte = 1_000_000
const unlimited = 1_000_000_000
const userId = '00000000-0000-4000-8000-000000000001'
const maxDirectBytes = 50 * 1024 * 1024

export interface StorageStage {
  dataDir: string
  projectId: string
  userId: string
  /** The random name of the project database. */
  database: string
  headers: Record<string, string>
  /** The URL of the project's files. */
  urlOf(platform: StagedServer): string
  /** The path of an object in the user's folder. */
  pathOf(name: string): string
  /** The name of the object in the bucket. */
  keyOf(name: string): string
  /** The path of a file of the stage, such as a script. */
  file(name: string): string
  start(nodeOptions?: string[]): Promise<StagedServer>
  /** While a platform runs: the server's superuser, and the pid of Postgres. */
  postgres(): { address: ServerAddress; postmaster: number }
  /** Uploads directly, or resumably if the file is too large for that. */
  store(platform: StagedServer, name: string, bytes: Buffer): Promise<void>
}

export async function stageStorage(stage: Stage): Promise<StorageStage> {
  const dataDir = stage.dataDir('platform')
  const scripts = stage.dataDir('scripts')
  const start = (nodeOptions: string[] = []) => startMain(stage, {}, dataDir, nodeOptions)

  const platform = await start()
  const { address, adminToken } = engineIn(dataDir)
  const quotas = {
    rate_limit_authenticated: unlimited,
    rate_limit_service_role: unlimited,
    max_storage_size_mb: 8192,
  }
  const project = await projectsAt(platform.url, adminToken).create({ body: { name: 'bench', quotas } })
  const database = await refOf(address, project.id)
  await platform.stop()

  const claims = { role: 'authenticated', sub: userId, exp: Math.floor(Date.now() / 1000) + 6 * 3600 }
  const headers = {
    apikey: project.anon_key,
    authorization: `Bearer ${signJwt(claims, project.jwt_secret)}`,
  }
  const root = `/v1/storage/${project.id}`
  const keyOf = (name: string) => `${userId}/${name}`
  const pathOf = (name: string) => `${root}/object/${bucket}/${keyOf(name)}`

  return {
    dataDir,
    projectId: project.id,
    userId,
    database,
    headers,
    urlOf: ({ url }) => url + root,
    keyOf,
    pathOf,
    file: name => join(scripts, name),
    start,
    postgres() {
      const engine = engineIn(dataDir)
      return { address: engine.address, postmaster: engine.postmaster }
    },
    async store({ url }, name, bytes) {
      if (bytes.length <= maxDirectBytes) return void (await send('PUT', url + pathOf(name), headers, bytes))
      const location = await beginUpload(url + root, headers, keyOf(name), bytes.length)
      await send('PATCH', location, { ...headers, ...chunkHeaders(0) }, bytes)
    },
  }
}

/** The URL for the bytes of a resumable upload. */
export async function beginUpload(
  storageUrl: string,
  headers: Record<string, string>,
  key: string,
  length: number,
): Promise<string> {
  const named = Object.entries({ bucketName: bucket, objectName: key })
  const reply = await send('POST', `${storageUrl}/upload/resumable`, {
    ...headers,
    'tus-resumable': '1.0.0',
    'upload-length': String(length),
    'upload-metadata': named.map(([field, text]) => `${field} ${btoa(text)}`).join(','),
    'x-upsert': 'true',
  })
  return reply.headers.get('location')!
}

export const chunkHeaders = (offset: number) => ({
  'tus-resumable': '1.0.0',
  'upload-offset': String(offset),
  'content-type': 'application/offset+octet-stream',
})

export async function send(
  method: string,
  url: string,
  headers: Record<string, string> = {},
  body?: Buffer,
): Promise<Response> {
  const reply = await fetch(url, { method, headers, ...(body && { body }) })
  if (!reply.ok) throw new Error(`${method} ${url} answered ${reply.status}: ${await reply.text()}`)
  return reply
}

export type PlainFiles = StagedServer & { directory: string }

/** A separate process that serves and stores plain files of a directory. */
export async function startPlainFiles(stage: Stage): Promise<PlainFiles> {
  const directory = join(stage.dataDir('plain'), 'files')
  mkdirSync(directory)
  const script = fileURLToPath(new URL('plain-files.ts', import.meta.url))
  return { ...(await stage.server(script, { FILES_DIRECTORY: directory })), directory }
}

export const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
