// A project, and clients for it in one URL form and one protocol version.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type { RealtimeChannelOptions } from '@supabase/supabase-js'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { call, type Reply, type TestPlatform } from '../harness.ts'
import { recordCalls } from './realtime-recorder.ts'
import type { Auth, Channel, Options, Realtime, Shape } from './realtime-shapes.ts'
import { type ChangeBinding, Subscriber } from './realtime-subscriber.ts'

export const ada = '11111111-1111-4111-8111-111111111111'
export const bob = '22222222-2222-4222-8222-222222222222'

export interface Member {
  id: string
  email: string
  realtime: Realtime
  auth: Auth
}

export interface Fixture {
  platform: TestPlatform
  project: CreatedProject
  ref: string
  shape: Shape
  anon(options?: Options): Realtime
  service(options?: Options): Realtime
  /** A client that has the token of this user before it joins a channel. */
  user(id: string, claims?: object, options?: Options): Promise<Realtime>
  /** A client with any key, at any address. */
  as(key: string, options?: Options, url?: string): Realtime
  /** A new user with a session. */
  signUp(options?: Options): Promise<Member>
  token(claims: object): string
  /** Runs a script as the project's owner. */
  sql(script: string): Promise<void>
  /** Creates a table with this policy. Row-level security is on, as for every table. */
  table(columns?: string, policy?: string): Promise<string>
  /** Calls a management route below the project. */
  manage(method: string, path: string, body?: unknown): Promise<Reply>
  /** Calls the data plane with the service_role key. */
  fetch(path: string, init?: RequestInit): Promise<Response>
}

const unlimited = { rate_limit_anon: 0, rate_limit_authenticated: 0, rate_limit_service_role: 0 }
const rateLimits = { token: 0, verify: 0, email: 0, anonymous: 0, mfa: 0, mail: 0, mail_interval_seconds: 0 }
export const password = 'correct horse battery'

export async function createFixture(
  platform: TestPlatform,
  shape: Shape,
  quotas: Record<string, number> = {},
): Promise<Fixture> {
  const project = await platform.projects.create({
    body: {
      name: 'radio',
      quotas: { ...unlimited, ...quotas },
      settings: { auth: { rate_limits: rateLimits } },
    },
  })
  const ref = await platform.refOf(project.id)
  const { id, anon_key: anonKey, service_role_key: serviceKey } = project
  const as: Fixture['as'] = (key, options, url = platform.url) =>
    recordCalls(shape.connect(url, id, key, options))
  const token = (claims: object) => signJwt({ ...claims }, project.jwt_secret)
  const sql = (script: string) =>
    platform.app.databases.asOwner({ ref }, session => session.script(script).then(() => {}))
  return {
    platform,
    project,
    ref,
    shape,
    as,
    token,
    sql,
    anon: options => as(anonKey, options),
    service: options => as(serviceKey, options),
    async user(sub, claims, options) {
      const jwt = token({ sub, role: 'authenticated', ...claims })
      const client = as(anonKey, { accessToken: async () => jwt, ...options })
      await client.setAuth()
      return client
    },
    async signUp(options) {
      const { realtime, auth } = shape.signedIn(platform.url, id, anonKey, options)
      const email = `${randomBytes(5).toString('hex')}@example.com`
      const { data, error } = await auth.signUp({ email, password })
      assert.equal(error, null)
      // If it joins before it has the token, the client never sends it.
      await realtime.setAuth()
      return { id: data.user!.id, email, realtime: recordCalls(realtime), auth }
    },
    async table(columns = 'id int primary key, owner uuid, label text', policy) {
      const name = `t_${randomBytes(5).toString('hex')}`
      await sql(
        `create table public.${name} (${columns}); ${policy ? `create policy p on public.${name} for select ${policy}` : ''}`,
      )
      return name
    },
    manage: (method, path, body) =>
      call(`${platform.url}/api/v1/projects/${id}${path}`, method, { token: platform.adminToken, body }),
    fetch: (path, init = {}) =>
      fetch(`${platform.url}/v1/${id}/${path}`, {
        ...init,
        headers: { apikey: serviceKey, 'content-type': 'application/json', ...init.headers },
      }),
  }
}

/** A unique topic. */
export const topic = (name = 'room') => `${name} ${randomBytes(5).toString('hex')}`

/** A subscriber on this topic that has not joined yet. */
export const newSubscriber = (
  client: Realtime,
  name: string = topic(),
  config: RealtimeChannelOptions['config'] = {},
  ...bindings: ChangeBinding[]
) => new Subscriber(client.channel(name, { config }), ...bindings)

/** A joined subscriber with only these bindings. */
export const rows = (client: Realtime, ...bindings: ChangeBinding[]) =>
  newSubscriber(client, topic('rows'), {}, ...bindings).join()

/** Waits until the server has handled all earlier messages of a channel with `ack`, which are answered in order. */
export async function settled(channel: Channel): Promise<void> {
  assert.equal(await channel.send({ type: 'broadcast', event: 'are you there', payload: {} }), 'ok')
}
