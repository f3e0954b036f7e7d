// Calls and checks of projects that sign access tokens with ES256.
import assert from 'node:assert/strict'
import { type AuthProject, address, authProject } from './auth-project.ts'
import type { CallOptions, Reply, TestPlatform } from './harness.ts'

export interface Jwk {
  kid: string
  [field: string]: unknown
}

export interface SigningProject extends AuthProject {
  /** The access token of a new user. */
  newToken(): Promise<string>
  /** The public keys, read without a credential. */
  jwks(at?: TestPlatform): Promise<Jwk[]>
  /** Calls the management API below the project, as the administrator. */
  manage(method: string, path: string, body?: unknown, at?: TestPlatform): Promise<Reply>
  rotate(at?: TestPlatform): Promise<any>
  /** The status of a data-plane request with this token. */
  statusWith(token: string, at?: TestPlatform): Promise<number>
}

export async function signingProject(
  platform: TestPlatform,
  settings: Record<string, unknown> = { jwt_algorithm: 'ES256' },
): Promise<SigningProject> {
  const project = await authProject(platform, settings)
  const manage: SigningProject['manage'] = (method, path, body, at = platform) =>
    at.call(method, `/api/v1/projects/${project.id}${path}`, {
      token: platform.adminToken,
      ...(body !== undefined && { body }),
    })
  return {
    ...project,
    newToken: async () => (await project.signUp(address())).access_token,
    async jwks(at = platform) {
      const { status, body } = await at.call('GET', `/v1/auth/${project.id}/.well-known/jwks.json`)
      assert.equal(status, 200, JSON.stringify(body))
      return body.keys
    },
    manage,
    async rotate(at = platform) {
      const { status, body } = await manage('POST', '/auth/signing-keys/rotate', undefined, at)
      assert.equal(status, 200, JSON.stringify(body))
      return body
    },
    async statusWith(token, at = platform) {
      const options: CallOptions = { apikey: project.anon_key, token }
      return (await at.call('GET', `/v1/whoami/${project.id}`, options)).status
    },
  }
}

const decoded = (part: string | undefined) => JSON.parse(Buffer.from(part ?? '', 'base64url').toString())
export const headerOf = (token: string) => decoded(token.split('.')[0])
export const claimsOf = (token: string) => decoded(token.split('.')[1])
