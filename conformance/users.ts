// A project's users in the management API, and their sign-ins on the data plane.
import assert from 'node:assert/strict'
import { type CreatedProject, unique } from './people.ts'
import type { Target } from './target.ts'
import type { Reply } from './wire.ts'

export const password = 'an old password'
export const address = () => `${unique('user')}@example.test`

/** Takes a function because test files start their target after these functions are created. */
export function usersOf(target: () => Target) {
  const users = (project: CreatedProject) => {
    const at = (path: string) => `/projects/${project.id}/users${path}`
    const manage = (method: string, path: string, body?: unknown) => target().manage(method, at(path), body)
    return {
      list: (query = '') => manage('GET', query),
      create: (body: unknown) => manage('POST', '', body),
      read: (id: string) => manage('GET', `/${id}`),
      remove: (id: string) => manage('DELETE', `/${id}`),
      ban: (id: string, body?: unknown) => manage('POST', `/${id}/ban`, body),
      unban: (id: string) => manage('POST', `/${id}/unban`),
      sessions: (id: string, query = '') => manage('GET', `/${id}/sessions${query}`),
      revokeAll: (id: string) => manage('DELETE', `/${id}/sessions`),
      revoke: (id: string, session: string) => manage('DELETE', `/${id}/sessions/${session}`),
      import: (records: unknown[]) => manage('POST', '/import', { users: records }),
    }
  }
  const auth = (
    { id, anon_key: apikey }: CreatedProject,
    method: string,
    path: string,
    body?: unknown,
    token?: string,
  ) => target().call(method, `/v1/auth/${id}${path}`, { apikey, body, token })
  const signIn = (project: CreatedProject, email: string, given = password) =>
    auth(project, 'POST', '/sign-in', { email, password: given })

  return {
    users,
    auth,
    signIn,
    /** A sign-in that must succeed. */
    async signedIn(project: CreatedProject, email: string): Promise<any> {
      const { status, body, text } = await signIn(project, email)
      assert.equal(status, 200, text)
      return body
    },
    refresh: (project: CreatedProject, refreshToken: string) =>
      auth(project, 'POST', '/token?grant_type=refresh_token', { refresh_token: refreshToken }),
    userOf: (project: CreatedProject, token: string) => auth(project, 'GET', '/user', undefined, token),
  }
}

/** The body of a response, which must be 201. */
export async function created(reply: Promise<Reply>): Promise<any> {
  const { status, body, text } = await reply
  assert.equal(status, 201, text)
  return body
}
