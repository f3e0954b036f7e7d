// A project with auth, and calls of its auth routes.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import type { CallOptions, Reply, TestPlatform } from './harness.ts'

export interface AuthProject extends CreatedProject {
  /** Calls an auth path with the anon key, unless the options have other credentials. */
  auth(method: string, path: string, body?: unknown, options?: CallOptions): Promise<Reply>
  asUser(token: string, method: string, path: string, body?: unknown): Promise<Reply>
  asAdmin(method: string, path: string, body?: unknown): Promise<Reply>
  /** Signs up a new user and returns the session. */
  signUp(email: string, password?: string, data?: object): Promise<any>
  signIn(email: string, password?: string): Promise<Reply>
  /** Signs in with the default password and returns the session. */
  openSession(email: string): Promise<any>
  /** Queries the project's database as superuser. */
  rows<T = any>(text: string): Promise<T[]>
}

export const password = 'correct horse'
export const unique = () => randomBytes(6).toString('hex')
/** A new address. */
export const address = () => `${unique()}@example.test`
/** Requests a mail link without following its redirect. */
export const follow = (link: string) => fetch(link, { redirect: 'manual' })

const lifted = { token: 0, verify: 0, email: 0, anonymous: 0, mfa: 0, mail: 0, mail_interval_seconds: 0 }

/** Rate limits are off. They have their own tests. */
export async function authProject(
  platform: TestPlatform,
  settings: Record<string, unknown> = {},
  node: TestPlatform = platform,
): Promise<AuthProject> {
  const project = await platform.projects.create({
    body: {
      name: `auth ${Math.random().toString(36).slice(2)}`,
      settings: { auth: { rate_limits: lifted, ...settings } },
      quotas: { rate_limit_anon: 0, rate_limit_authenticated: 0, rate_limit_service_role: 0 },
    },
  })
  const call = (method: string, path: string, options: CallOptions) =>
    node.call(method, `/v1/${project.id}/auth/v1${path}`, options)
  const withBody = (body: unknown): CallOptions => (body === undefined ? {} : { body })
  const auth: AuthProject['auth'] = (method, path, body, options) =>
    call(method, path, { apikey: project.anon_key, ...withBody(body), ...options })
  const signIn: AuthProject['signIn'] = (email, given = password) =>
    auth('POST', '/token?grant_type=password', { email, password: given })
  return {
    ...project,
    auth,
    asUser: (token, method, path, body) =>
      call(method, path, { apikey: project.anon_key, token, ...withBody(body) }),
    asAdmin: (method, path, body) =>
      call(method, path, { apikey: project.service_role_key, ...withBody(body) }),
    signUp: async (email, given = password, data = {}) =>
      (await auth('POST', '/signup', { email, password: given, data })).body,
    signIn,
    async openSession(email) {
      const { status, body } = await signIn(email)
      assert.equal(status, 200, JSON.stringify(body))
      return body
    },
    rows: async <T>(text: string) =>
      platform.asSuperuser(await platform.refOf(project.id), session => session.rows<T>(raw(text))),
  }
}
