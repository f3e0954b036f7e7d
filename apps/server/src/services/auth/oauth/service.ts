// Sign-in with OAuth and OpenID providers.
import { Refusal } from '#src/kernel/errors.ts'
import type { Outbound } from '#src/kernel/outbound/fetch.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from '../client-info.ts'
import { currentUser } from '../current-user.ts'
import type { FlowDeps } from '../flow-deps.ts'
import { requireSecondFactor } from '../mfa/second-factor.ts'
import { createSessionIssuer, type SessionObject } from '../session-issuer.ts'
import { settingsOf } from '../settings.ts'
import { createAccounts, type Linking } from './accounts.ts'
import { createAuthorize } from './authorize.ts'
import { createCallback } from './callback.ts'
import { createCodeExchange } from './code-exchange.ts'
import { configuredProvider, enabledProviders } from './configuration.ts'
import { BadIdToken, hashedNonce } from './id-token.ts'
import type { ProviderIdentity } from './identity.ts'
import { requireManualLinking } from './manual-linking.ts'
import { createProviderClient } from './provider-client.ts'
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

export function oauthService(deps: FlowDeps & { outbound: Outbound }) {
  const { databases, sealer, limits, log } = deps
  const providerClient = createProviderClient(deps.outbound)
  const accounts = createAccounts(deps)
  const authorize = createAuthorize(deps, providerClient)
  const issueSession = createSessionIssuer(deps)

  async function identityFrom(tenant: Tenant, body: IdTokenSignIn): Promise<ProviderIdentity> {
    const { provider: given, id_token: idToken, access_token: accessToken, nonce } = body
    if (!given || !idToken) throw new Refusal('validation_failed', 'provider and id_token are required')
    const name = providerNamed(given)
    const configured = name && configuredProvider(tenant, name, sealer)
    if (!configured) throw new Refusal('provider_disabled', 'Provider is not enabled for this project')
    if (configured.provider.protocol !== 'openid')
      throw new Refusal('oauth_provider_not_supported', `${configured.provider.title} issues no ID tokens`)
    return providerClient
      .verify(configured, idToken, {
        nonce: nonce ? hashedNonce(nonce) : undefined,
        accessToken: accessToken || undefined,
      })
      .catch(error => {
        if (!(error instanceof BadIdToken)) throw error
        log.warn({ err: error }, 'ID token rejected')
        throw new Refusal('invalid_credentials', `Bad ID token: ${error.message}`)
      })
  }

  async function requireSignedIn(caller: Caller): Promise<Linking> {
    if (caller.role !== 'authenticated')
      throw new Refusal('no_authorization', 'Linking an identity requires the token of a signed-in user')
    return databases.auth(caller.tenant).transaction(async session => {
      const current = await currentUser(session, caller)
      requireManualLinking(caller.tenant)
      // A linked identity is a new way to sign in.
      await requireSecondFactor(session, current)
      return { userId: current.user.id, sessionId: current.session.id }
    })
  }

  return {
    /** The URL of the provider's sign-in page. */
    authorize: (tenant: Tenant, query: URLSearchParams, referer: string | undefined): Promise<string> =>
      authorize(tenant, { query, referer, linking: null }),

    /** The same for a signed-in user who links an identity. */
    async linkAuthorize(
      caller: Caller,
      query: URLSearchParams,
      referer: string | undefined,
    ): Promise<string> {
      return authorize(caller.tenant, { query, referer, linking: await requireSignedIn(caller) })
    },

    /** The redirect URL after the callback, also after an error. */
    callback: createCallback(deps, providerClient, accounts),

    /** grant_type=pkce, for providers and for links in mails. */
    exchangeCode: createCodeExchange(deps),

    /** grant_type=id_token; with `link_identity`, the caller must be a signed-in user. */
    async signInWithIdToken(caller: Caller, body: IdTokenSignIn, client: ClientInfo): Promise<SessionObject> {
      const { tenant } = caller
      limits.count(tenant, 'token', client.ip)
      const linking = body.link_identity ? await requireSignedIn(caller) : null
      const identity = await identityFrom(tenant, body)
      const options = { linking, redirectTo: settingsOf(tenant).site_url }
      return accounts.signIn(tenant, identity, options, (session, userId) =>
        issueSession(session, tenant, userId, 'oauth', client),
      )
    },

    /** DELETE /user/identities/<identity_id> */
    unlink: createUnlink(deps),

    /** For `external` in GET /settings. */
    enabled: enabledProviders,
  }
}
