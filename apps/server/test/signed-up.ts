// A project whose users can be made, and what tests ask of its auth routes.
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type { CallOptions, Reply, TestPlatform } from './harness.ts'

export interface AuthProject extends CreatedProject {
  /** Calls a path of the auth service with the anon key, or as whom the options say. */
  auth(method: string, path: string, body?: unknown, options?: CallOptions): Promise<Reply>
  asUser(token: string, method: string, path: string, body?: unknown): Promise<Reply>
  asAdmin(method: string, path: string, body?: unknown): Promise<Reply>
  /** The session of somebody new. */
  signUp(email: string, password?: string, data?: object): Promise<any>
  signIn(email: string, password?: string): Promise<Reply>
}

export const password = 'correct horse'
const lifted = { token: 0, verify: 0, email: 0, anonymous: 0, mfa: 0, mail: 0, mail_interval_seconds: 0 }

/** Without limits on how often, which tests would run into; these have tests of their own. */
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
  return {
    ...project,
    auth,
    asUser: (token, method, path, body) =>
      call(method, path, { apikey: project.anon_key, token, ...withBody(body) }),
    asAdmin: (method, path, body) =>
      call(method, path, { apikey: project.service_role_key, ...withBody(body) }),
    signUp: async (email, given = password, data = {}) =>
      (await auth('POST', '/signup', { email, password: given, data })).body,
    signIn: (email, given = password) =>
      auth('POST', '/token?grant_type=password', { email, password: given }),
  }
}
