// A project with files, its storage API on the native and the alias path, and each kind of caller. Requests
// are built here from the specification, without the client library.
import assert from 'node:assert/strict'
import { type CreatedProject, createProject, unique, unlimited, userJwt } from './people.ts'
import { rootOf } from './rows.ts'
import { bodyOf, type Shape } from './service.ts'
import { freshTarget, type Settings, type Target } from './target.ts'
import { assertRequestId, type Reply } from './wire.ts'

export type Caller = 'nobody' | 'anon' | 'service_role' | { sub: string; [claim: string]: unknown }
export interface Ask {
  /** Default: service_role. An object is the claims of a signed-in user. */
  as?: Caller
  body?: unknown
  raw?: RequestInit['body']
  headers?: Record<string, string>
  shape?: Shape
}

export const ada = { sub: '6f1f0a3e-7d0b-4f6e-9a59-6b5f0a8b2c11', email: 'ada@example.test' }
export const bob = { sub: '0b0b0b0b-7d0b-4f6e-9a59-6b5f0a8b2c22', email: 'bob@example.test' }

export const upsert = { 'x-upsert': 'true' }

export interface Uploaded {
  Id: string
  Key: string
}

export interface StorageApi {
  project: CreatedProject
  target: Target
  /** The path after the service, percent-encoded by the caller. */
  ask(method: string, path: string, options?: Ask): Promise<Reply>
  get(path: string, options?: Ask): Promise<Reply>
  head(path: string, options?: Ask): Promise<Reply>
  post(path: string, body?: unknown, options?: Ask): Promise<Reply>
  put(path: string, body?: unknown, options?: Ask): Promise<Reply>
  delete(path: string, body?: unknown, options?: Ask): Promise<Reply>
  /** Creates a bucket with a unique name. */
  bucket(fields?: Record<string, unknown>): Promise<string>
  /** POSTs the bytes as a raw body, as text/plain unless the headers have another type. */
  upload(bucket: string, key: string, content?: string | Uint8Array, options?: Ask): Promise<Reply>
  /** Uploads a file, which must succeed. */
  store(bucket: string, key: string, content?: string | Uint8Array, options?: Ask): Promise<Uploaded>
  /** The bytes of a file, which must exist. */
  read(bucket: string, key: string, options?: Ask): Promise<Buffer>
  /** Asserts that the file does not exist. */
  assertMissing(bucket: string, key: string): Promise<void>
  info(bucket: string, key: string): Promise<any>
  /** All keys of a bucket, as service_role. */
  keys(bucket: string): Promise<string[]>
  /** The storage use of the project according to the management API. */
  usage(): Promise<number>
  /** Runs a script as the project's owner and returns the rows of its last statement. */
  sql(script: string): Promise<any[]>
}

/** Without the rate limit per address on public and signed files, which the tests would exceed. */
export const storageTarget = (settings: Settings = {}): Promise<Target> =>
  freshTarget({ PLATFORM_RATE_LIMIT_ANON: '0', ...settings })

export const storageProject = async (
  target: Target,
  quotas: Record<string, number> = {},
): Promise<StorageApi> =>
  storageOf(target, await createProject(target, { quotas: { ...unlimited, ...quotas } }))

export const storageRoot = ({ id }: Pick<CreatedProject, 'id'>, shape: Shape = 'native') =>
  shape === 'alias' ? `/v1/${id}/storage/v1` : `/v1/storage/${id}`

/** Encodes a key for a path and keeps its slashes. */
export const encodeKey = (key: string) => key.split('/').map(encodeURIComponent).join('/')
export const objectPath = (bucket: string, key: string, kind = 'object') =>
  `${kind}/${encodeURIComponent(bucket)}/${encodeKey(key)}`

export function credentialsOf(project: CreatedProject, as: Caller = 'service_role') {
  if (as === 'nobody') return {}
  if (as === 'anon') return { apikey: project.anon_key, token: project.anon_key }
  if (as === 'service_role') return { apikey: project.service_role_key, token: project.service_role_key }
  return { apikey: project.anon_key, token: userJwt(project, as) }
}

export function headersOf(project: CreatedProject, as?: Caller): Record<string, string> {
  const { apikey, token } = credentialsOf(project, as)
  return apikey === undefined ? {} : { apikey, authorization: `Bearer ${token}` }
}

export function storageOf(target: Target, project: CreatedProject): StorageApi {
  const ask = (method: string, path: string, { as, shape, ...options }: Ask = {}) =>
    target.call(method, `${storageRoot(project, shape)}/${path}`, {
      ...credentialsOf(project, as),
      ...options,
    })
  const withBody = (method: string) => (path: string, body?: unknown, options?: Ask) =>
    ask(method, path, { ...options, body })
  const withoutBody = (method: string) => (path: string, options?: Ask) => ask(method, path, options)

  const upload = (
    bucket: string,
    key: string,
    content: string | Uint8Array = 'some text',
    { headers, ...options }: Ask = {},
  ) =>
    ask('POST', objectPath(bucket, key), {
      raw: Buffer.from(content),
      headers: { 'content-type': 'text/plain', ...headers },
      ...options,
    })

  return {
    project,
    target,
    ask,
    get: withoutBody('GET'),
    head: withoutBody('HEAD'),
    post: withBody('POST'),
    put: withBody('PUT'),
    delete: withBody('DELETE'),
    upload,
    async bucket(fields = {}) {
      const id = unique('bucket')
      bodyOf(await ask('POST', 'bucket', { body: { id, name: id, public: false, ...fields } }))
      return (fields['id'] as string) ?? id
    },
    store: async (bucket, key, content, options) => bodyOf(await upload(bucket, key, content, options)),
    async read(bucket, key, options) {
      const reply = await ask('GET', objectPath(bucket, key), options)
      assert.equal(reply.status, 200, `${bucket}/${key}: ${reply.status} ${reply.text.slice(0, 500)}`)
      return reply.bytes
    },
    async assertMissing(bucket, key) {
      assertRefused(await ask('GET', objectPath(bucket, key)), 404, 'NoSuchKey')
    },
    info: async (bucket, key) => bodyOf(await ask('GET', objectPath(bucket, key, 'object/info'))),
    async keys(bucket) {
      const { objects } = bodyOf(
        await ask('POST', `object/list-v2/${encodeURIComponent(bucket)}`, { body: {} }),
      )
      return objects.map(({ name }: { name: string }) => name)
    },
    usage: async () => bodyOf(await target.manage('GET', `/projects/${project.id}`)).storage_bytes,
    async sql(script) {
      const { service_role_key: apikey } = project
      return bodyOf(
        await target.call('POST', `${rootOf(project)}/rpc/exec_sql`, { apikey, body: { sql: script } }),
      )
    },
  }
}

/** Storage contract §7: the error names that clients check. */
const shortNames: Record<string, string> = {
  NoSuchBucket: 'Bucket not found',
  NoSuchKey: 'not_found',
  ResourceAlreadyExists: 'Duplicate',
  KeyAlreadyExists: 'Duplicate',
  BucketAlreadyExists: 'Duplicate',
  AccessDenied: 'Unauthorized',
  InvalidBucketName: 'Invalid Input',
  EntityTooLarge: 'Payload too large',
  InvalidMimeType: 'invalid_mime_type',
  InvalidRange: 'invalid_range',
}
export const duplicate = ['KeyAlreadyExists', 'ResourceAlreadyExists']

/**
 * The error fields of 1 §7 and storage contract §7. Several codes where the specification allows a choice.
 */
export function assertRefused(reply: Reply, status: number, code?: string | string[]): void {
  assertStatus(reply, status)
  assertErrorBody(reply)
  if (code !== undefined) assert.ok([code].flat().includes(reply.body.code), `${code}: ${reply.text}`)
}

/** An error with one of these statuses. */
export function assertOneOf(reply: Reply, statuses: number[]): void {
  assert.ok(statuses.includes(reply.status), `${statuses}: ${reply.status} ${reply.text.slice(0, 500)}`)
}
export const assertStatus = (reply: Reply, status: number) => assertOneOf(reply, [status])

export function assertErrorBody(reply: Reply): void {
  const { body, text, status } = reply
  assert.deepEqual(
    Object.keys(body ?? {}).sort(),
    ['code', 'details', 'error', 'hint', 'message', 'statusCode'],
    `${status} ${text.slice(0, 500)}`,
  )
  for (const field of ['code', 'details', 'error', 'hint', 'message'])
    assert.equal(typeof body[field], 'string', `${field}: ${text}`)
  for (const field of ['code', 'error', 'message']) assert.notEqual(body[field], '', `${field}: ${text}`)
  assert.equal(body.statusCode, status)
  const name = shortNames[body.code]
  if (name !== undefined) assert.equal(body.error, name, text)
  assertRequestId(reply)
}

/** Compares without assert.deepEqual: the message about two large files would fill the memory. */
export function assertBytes(actual: Buffer, expected: Uint8Array, what = ''): void {
  assert.ok(actual.equals(expected), `${what} ${actual.length} bytes, other than ${expected.length} expected`)
}

/** Policies that allow only ada to upload to a bucket. */
export const letAdaWrite = (storage: StorageApi, bucket: string) =>
  storage.sql(`create policy ada_writes on storage.objects for insert to authenticated
    with check (bucket_id = '${bucket}' and auth.uid() = '${ada.sub}')`)

/** The claims of a token, unverified. */
export const claimsOf = (token: string): any =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
export const tokenIn = (url: string): string => new URL(url, 'http://x').searchParams.get('token') ?? ''
