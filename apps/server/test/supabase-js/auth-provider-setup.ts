// A project with a real OpenID provider, and browsers that sign in there.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before } from 'node:test'
import {
  type Account,
  type IdentityProvider,
  type RegisteredClient,
  startIdentityProvider,
} from '../identity-provider.ts'
import { dataOf } from './auth-objects.ts'
import type { AuthProject, Setup } from './auth-setup.ts'
import type { Auth } from './auth-shapes.ts'
import type { Redirect } from './auth-users.ts'

export interface ProviderSetup {
  setup: Setup
  identity: IdentityProvider
  client: RegisteredClient
  /** The callback URL for the provider. */
  callback: string
  project: AuthProject
  /** Adds an account at the provider and returns its login name. */
  account(claims?: Partial<Account>): { name: string; account: Account }
  /** Follows redirects as the browser of this account, until it leaves platform and provider. */
  browse(url: string, account?: string): Promise<Redirect>
}

export const redirectTo = 'https://app.example.com/back?from=there'
/** The same URL without its query. */
export const back = 'https://app.example.com/back'

/** Starts a provider and a project that uses it, for the tests of one file. */
export function withProvider(setup: () => Setup): () => ProviderSetup {
  let identity: IdentityProvider
  let here: ProviderSetup
  before(async () => {
    identity = await startIdentityProvider()
    here = await openProviderSetup(setup(), identity)
  })
  after(() => identity?.close())
  return () => here
}

/** Signs in with the provider and returns the final redirect. */
export async function signInAt(place: ProviderSetup, auth: Auth, name: string, to = redirectTo) {
  const { url } = dataOf(await auth.signInWithOAuth({ provider: 'google', options: { redirectTo: to } }))
  return place.browse(url, name)
}

export async function openProviderSetup(
  setup: Setup,
  identity: IdentityProvider,
  settings: Record<string, unknown> = {},
): Promise<ProviderSetup> {
  const project = await setup.project({ manual_linking_enabled: true, ...settings })
  const { url } = setup.platform
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
    setup,
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
