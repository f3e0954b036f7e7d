// A project of the stage that knows a real OpenID provider, and browsers that go there and come back.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before } from 'node:test'
import {
  type Account,
  type IdentityProvider,
  type RegisteredClient,
  startIdentityProvider,
} from '../identity-provider.ts'
import { granted } from './auth-objects.ts'
import type { Landing } from './auth-people.ts'
import type { Auth } from './auth-shapes.ts'
import type { AuthProject, Stage } from './auth-stage.ts'

export interface ProviderStage {
  stage: Stage
  identity: IdentityProvider
  client: RegisteredClient
  /** Where the provider sends browsers back to. */
  callback: string
  project: AuthProject
  /** One more account at the provider, under a name to sign in with. */
  account(claims?: Partial<Account>): { name: string; account: Account }
  /** Goes to a URL as the browser of this account, until it leaves the platform and the provider. */
  browse(url: string, account?: string): Promise<Landing>
}

export const redirectTo = 'https://app.example.com/back?from=there'
/** Where that leads, without its query. */
export const back = 'https://app.example.com/back'

/** For the tests of one part: a provider of their own, and a project that knows it. */
export function withProvider(stage: () => Stage): () => ProviderStage {
  let identity: IdentityProvider
  let here: ProviderStage
  before(async () => {
    identity = await startIdentityProvider()
    here = await openProviderStage(stage(), identity)
  })
  after(() => identity?.close())
  return () => here
}

/** Starts a sign-in with the provider and answers where the browser ends up. */
export async function signInAt(place: ProviderStage, auth: Auth, name: string, to = redirectTo) {
  const { url } = granted(await auth.signInWithOAuth({ provider: 'google', options: { redirectTo: to } }))
  return place.browse(url, name)
}

export async function openProviderStage(
  stage: Stage,
  identity: IdentityProvider,
  settings: Record<string, unknown> = {},
): Promise<ProviderStage> {
  const project = await stage.project(settings)
  const { url } = stage.platform
  const callbacks = [`${url}/v1/auth/${project.id}/callback`, `${url}/v1/${project.id}/auth/v1/callback`]
  const client = await identity.register(...callbacks)
  const { status, body } = await project.manage('PUT', '/auth/providers', {
    provider: 'google',
    client_id: client.client_id,
    client_secret: client.client_secret,
    enabled: true,
    issuer: identity.issuer,
    authorize_url: identity.authorizeUrl,
    token_url: identity.tokenUrl,
    userinfo_url: identity.userinfoUrl,
  })
  assert.equal(status, 200, JSON.stringify(body))
  return {
    stage,
    identity,
    client,
    callback: callbacks[0]!,
    project,
    account(claims = {}) {
      const name = `somebody-${randomBytes(5).toString('hex')}`
      const account = {
        sub: `sub-${name}`,
        email: `${name}@example.com`,
        email_verified: true,
        name: 'Some Body',
        ...claims,
      }
      identity.accounts.set(name, account)
      return { name, account }
    },
    async browse(start, account) {
      const options = { within: [url], ...(account !== undefined && { account }) }
      const { url: end } = await identity.browse(start, options)
      return {
        status: 302,
        place: end.origin + end.pathname,
        query: Object.fromEntries(end.searchParams),
        fragment: Object.fromEntries(new URLSearchParams(end.hash.slice(1))),
      }
    },
  }
}
