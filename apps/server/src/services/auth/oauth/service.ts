// Sign-in with providers, as the routes of this service call it.
import { Refusal } from '#src/kernel/errors.ts'
import type { Outbound } from '#src/kernel/outbound/fetch.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { currentUser } from '../current-user.ts'
import { needSecondFactor } from '../mfa/second-factor.ts'
import type { AuthParts, ClientFacts } from '../parts.ts'
import { settingsOf } from '../settings.ts'
import { createIssue, type SessionObject } from '../sign-in.ts'
import { createAccounts, type Linking } from './accounts.ts'
import { createAuthorize } from './authorize.ts'
import { createCallback } from './callback.ts'
import { createCodeExchange } from './code-exchange.ts'
import { configuredProvider, enabledProviders } from './configuration.ts'
import { createExchange } from './exchange.ts'
import { BadIdToken, hashedNonce } from './id-token.ts'
import type { ProviderIdentity } from './identity.ts'
import { providerNamed } from './provider-name.ts'
import { type ProviderTemplate, providerTemplates } from './providers.ts'
import { createUnlink } from './unlink.ts'

export interface IdTokenSignIn {
  provider?: string | null | undefined
  id_token?: string | null | undefined
  access_token?: string | null | undefined
  nonce?: string | null | undefined
  link_identity?: boolean | null | undefined
}

export type OauthService = ReturnType<typeof oauthService>

/** For `GET /api/v1/auth/templates`. */
export const oauthTemplates = (): ProviderTemplate[] => providerTemplates()

export function oauthService(parts: AuthParts & { outbound: Outbound }) {
  const { databases, sealer, limits, log } = parts
  const exchange = createExchange(parts.outbound)
  const accounts = createAccounts(parts)
  const authorize = createAuthorize(parts, exchange)
  const issue = createIssue(parts)

  async function identityFrom(tenant: Tenant, body: IdTokenSignIn): Promise<ProviderIdentity> {
    const { provider: given, id_token: idToken, access_token: accessToken, nonce } = body
    if (!given || !idToken) throw new Refusal('validation_failed', 'provider and id_token are required')
    const name = providerNamed(given)
    const configured = name && configuredProvider(tenant, name, sealer)
    if (!configured) throw new Refusal('provider_disabled', 'Provider is not enabled for this project')
    if (configured.provider.protocol !== 'openid')
      throw new Refusal('oauth_provider_not_supported', `${configured.provider.title} issues no ID tokens`)
    return exchange
      .verify(configured, idToken, {
        nonce: nonce ? hashedNonce(nonce) : undefined,
        accessToken: accessToken || undefined,
      })
      .catch(error => {
        if (!(error instanceof BadIdToken)) throw error
        log.warn({ err: error }, 'an ID token was refused')
        throw new Refusal('invalid_credentials', `Bad ID token: ${error.message}`)
      })
  }

  async function signedIn(caller: Caller): Promise<Linking> {
    if (caller.role !== 'authenticated')
      throw new Refusal('no_authorization', 'Linking an identity requires the token of a signed-in user')
    return databases.auth(caller.tenant).transaction(async session => {
      const current = await currentUser(session, caller)
      // A new way to sign in.
      await needSecondFactor(session, current)
      return { userId: current.user.id, sessionId: current.session.id }
    })
  }

  return {
    /** The provider's address for a browser that wants to sign in. */
    authorize: (tenant: Tenant, query: URLSearchParams, referer: string | undefined): Promise<string> =>
      authorize(tenant, { query, referer, linking: null }),

    /** The same for a signed-in user who adds an identity. */
    async linkAuthorize(
      caller: Caller,
      query: URLSearchParams,
      referer: string | undefined,
    ): Promise<string> {
      return authorize(caller.tenant, { query, referer, linking: await signedIn(caller) })
    },

    /** Where to send a browser that comes back, whatever has happened. */
    callback: createCallback(parts, exchange, accounts),

    /** grant_type=pkce, for providers and for links in mails. */
    exchangeCode: createCodeExchange(parts),

    /** grant_type=id_token; with `link_identity`, the caller must be a signed-in user. */
    async signInWithIdToken(
      caller: Caller,
      body: IdTokenSignIn,
      client: ClientFacts,
    ): Promise<SessionObject> {
      const { tenant } = caller
      limits.count(tenant, 'token', client.ip)
      const linking = body.link_identity ? await signedIn(caller) : null
      const identity = await identityFrom(tenant, body)
      const options = { linking, redirectTo: settingsOf(tenant).site_url }
      return accounts.signIn(tenant, identity, options, (session, userId) =>
        issue(session, tenant, userId, 'oauth', client),
      )
    },

    /** DELETE /user/identities/<identity_id> */
    unlink: createUnlink(parts),

    /** For `external` in GET /settings. */
    enabled: enabledProviders,
  }
}
