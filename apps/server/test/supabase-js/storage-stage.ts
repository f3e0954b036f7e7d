// A project with a private and a public bucket, and clients for it in one shape of the URL.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import type { TestPlatform } from '../harness.ts'
import { watched } from './storage-recorder.ts'
import type { Files, Shape, Storage } from './storage-shapes.ts'

export const ada = '11111111-1111-4111-8111-111111111111'
export const bob = '22222222-2222-4222-8222-222222222222'

export interface Stage {
  platform: TestPlatform
  project: CreatedProject
  /** Base URL of the storage routes, for requests of a browser or an older client. */
  base: string
  service: Storage
  anon: Storage
  /** A client signed in as this user. */
  user(id: string): Storage
  /** A client with this key and token, which may be invalid. */
  as(key: string, token?: string): Storage
  /** Files of the private bucket, as service_role. */
  files: Files
  /** Files of the public bucket, as service_role. */
  shown: Files
  /** Runs a script as the project's owner. */
  sql(script: string): Promise<void>
  /** A plain request with the service_role key. */
  fetch(method: string, path: string, headers?: Record<string, string>): Promise<Response>
}

export async function setStage(platform: TestPlatform, shape: Shape): Promise<Stage> {
  const unlimited = { rate_limit_anon: 0, rate_limit_authenticated: 0, rate_limit_service_role: 0 }
  const project = await platform.projects.create({ body: { name: 'gallery', quotas: unlimited } })
  const ref = await platform.refOf(project.id)
  const base = shape.base(platform.url, project.id)
  const as = (key: string, token?: string) => watched(shape.connect(platform.url, project.id, key, token))
  const service = as(project.service_role_key)
  const stage: Stage = {
    platform,
    project,
    base,
    service,
    anon: as(project.anon_key),
    user: id => as(project.anon_key, signJwt({ sub: id, role: 'authenticated' }, project.jwt_secret)),
    as,
    files: service.from('private'),
    shown: service.from('shown'),
    sql: script => platform.app.databases.asOwner({ ref }, session => session.script(script).then(() => {})),
    fetch: (method, path, headers = {}) =>
      fetch(`${base}/${path}`, { method, headers: { apikey: project.service_role_key, ...headers } }),
  }
  done(await service.createBucket('private'))
  done(await service.createBucket('shown', { public: true }))
  return stage
}

/** The data of a result that must not be an error. */
export function done<T>({ data, error }: { data: T; error: unknown }): NonNullable<T> {
  assert.equal(error, null, JSON.stringify(error))
  assert.ok(data !== null && data !== undefined)
  return data
}

/** The common fields of all errors. According to the specification statusCode is a number. */
export function statusAndCode(error: unknown): [status: unknown, statusCode: unknown, code: unknown] {
  assert.ok(error instanceof Error, `not an error: ${JSON.stringify(error)}`)
  assert.ok(error.message.length > 0, 'the error has a message')
  return [Reflect.get(error, 'status'), Reflect.get(error, 'statusCode'), Reflect.get(error, 'code')]
}

export const bytesOf = async (blob: Blob): Promise<Buffer> => Buffer.from(await blob.arrayBuffer())

/** A unique name for a folder or bucket. */
export const folder = (): string => `f${randomBytes(6).toString('hex')}`
