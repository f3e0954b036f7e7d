// The callback from a provider. It consumes the state first, so that it works once. Later errors are reported to the
// application by a redirect, in the query and in the fragment, because clients read either.
import { randomUUID } from 'node:crypto'
import { Refusal } from '#src/kernel/errors.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { ClientInfo } from '../client-info.ts'
import type { FlowDeps } from '../flow-deps.ts'
import { errorParameters, withFragment, withQuery } from '../mail/redirect.ts'
import { createSessionIssuer, type SessionObject } from '../session-issuer.ts'
import { settingsOf } from '../settings.ts'
import type { Accounts } from './accounts.ts'
import { callbackUrl } from './authorize.ts'
import { type ConfiguredProvider, configuredProvider } from './configuration.ts'
import { type FlowSecrets, flowContext, openSecrets } from './flow-secrets.ts'
import { consumeFlow, type Flow, insertCodeFlow } from './flow-store.ts'
import { badCallback, type ProviderIdentity, type ProviderTokens } from './identity.ts'
import { requireManualLinking } from './manual-linking.ts'
import type { ProviderClient } from './provider-client.ts'
import { providerNamed } from './provider-name.ts'

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const maxCodeLength = 4096
const maxDescriptionLength = 500

export function createCallback(deps: FlowDeps, providerClient: ProviderClient, accounts: Accounts) {
  const { databases, sealer, hashOneTime, baseUrl, log } = deps
  const issueSession = createSessionIssuer(deps)

  /** Returns the URL for the redirect, also after an error. */
  return async (tenant: Tenant, given: URLSearchParams, client: ClientInfo): Promise<string> => {
    let target = settingsOf(tenant).site_url
    try {
      const state = given.get('state') ?? ''
      const flow = uuid.test(state) ? await consumeFlow(databases.auth(tenant), state) : undefined
      if (!flow)
        throw new Refusal('bad_oauth_state', 'The sign-in is unknown or was used before; begin again')
      target = flow.redirect_to
      if (flow.linking_user_id !== null) requireManualLinking(tenant)
      if (flow.has_expired)
        throw new Refusal('bad_oauth_state', 'The sign-in took longer than 5 minutes; begin again')
      if (given.has('error')) return withError(target, errorOfProvider(given))
      const { identity, tokens } = await identify(tenant, flow, given)
      return await finish(tenant, flow, identity, tokens, client)
    } catch (error) {
      if (!(error instanceof Refusal)) log.error({ err: error }, 'sign-in with a provider failed')
      // Errors from triggers of the project do not belong in the platform's log.
      else if (error.cause !== undefined && !(error.cause instanceof DatabaseError))
        log.warn({ err: error }, 'provider did not identify the user')
      return withError(target, errorParameters(error instanceof Refusal ? error : unexpected))
    }
  }

  async function identify(tenant: Tenant, flow: Flow, given: URLSearchParams) {
    const name = providerNamed(flow.provider)
    const configured = name && configuredProvider(tenant, name, sealer)
    if (!configured) throw new Refusal('provider_disabled', 'The provider was switched off meanwhile')
    if (!isFrom(configured, given.get('iss')))
      throw badCallback('Another provider has answered than the one asked')
    const code = given.get('code') ?? ''
    if (code === '' || code.length > maxCodeLength) throw badCallback('The provider sent no code')
    const { verifier, nonce } = openSecrets(sealer, tenant, flow.secrets)
    return providerClient.redeem(configured, {
      code,
      redirectUri: callbackUrl(baseUrl(), tenant),
      verifier,
      nonce,
      name: nameFrom(given.get('user')),
    })
  }

  /** A client with a PKCE challenge gets an auth code, any other client the session. */
  async function finish(
    tenant: Tenant,
    flow: Flow,
    identity: ProviderIdentity,
    tokens: ProviderTokens,
    client: ClientInfo,
  ): Promise<string> {
    const {
      redirect_to: redirectTo,
      code_challenge: challenge,
      code_challenge_method: challengeMethod,
    } = flow
    const options = { linking: linkingOf(flow), redirectTo }
    if (challenge === null || challengeMethod === null) {
      const issued = await accounts.signIn(tenant, identity, options, (session, userId) =>
        issueSession(session, tenant, userId, 'oauth', client),
      )
      return withFragment(redirectTo, fragmentOf(issued, tokens))
    }
    const code = randomUUID()
    const secrets: FlowSecrets = {
      providerToken: tokens.accessToken,
      ...(tokens.refreshToken !== undefined && { providerRefreshToken: tokens.refreshToken }),
    }
    await accounts.signIn(tenant, identity, options, (session, userId) =>
      insertCodeFlow(session, {
        userId,
        provider: flow.provider,
        challenge,
        challengeMethod,
        codeHash: hashOneTime(tenant.id, code),
        redirectTo,
        secrets: sealer.seal(JSON.stringify(secrets), flowContext(tenant)),
      }),
    )
    return withQuery(redirectTo, { code })
  }
}

const linkingOf = ({ linking_user_id: userId, linking_session_id: sessionId }: Flow) =>
  userId === null || sessionId === null ? null : { userId, sessionId }

/** Checks the issuer of the answer (RFC 9207). Microsoft has one issuer per tenant, so it cannot be compared. */
const isFrom = ({ name, provider, issuer }: ConfiguredProvider, sentIssuer: string | null) =>
  sentIssuer === null || provider.protocol === 'oauth2' || name === 'microsoft' || sentIssuer === issuer

const fragmentOf = (
  { access_token, expires_at, expires_in, refresh_token, token_type }: SessionObject,
  { accessToken, refreshToken }: ProviderTokens,
) => ({
  access_token,
  expires_at,
  expires_in,
  provider_refresh_token: refreshToken,
  provider_token: accessToken,
  refresh_token,
  sb: '',
  token_type,
})

const unexpected = {
  status: 500,
  code: 'unexpected_failure',
  message: 'Something went wrong on our side; try again',
}

const withError = (target: string, parameters: ReturnType<typeof errorParameters>) =>
  withFragment(withQuery(target, parameters), { ...parameters, sb: '' })

/** The provider's own error, limited in length and characters. */
function errorOfProvider(given: URLSearchParams) {
  const error = given.get('error') ?? ''
  return {
    error: /^[a-z_]{1,64}$/.test(error) ? error : 'server_error',
    error_code: 'bad_oauth_callback',
    error_description:
      given.get('error_description')?.slice(0, maxDescriptionLength) ||
      'The provider has refused the sign-in',
  }
}

/** Apple's `{"name":{"firstName":…,"lastName":…}}`. The address next to it is unsigned and is ignored. */
function nameFrom(user: string | null): string | undefined {
  if (user === null || user.length > 4096) return
  try {
    const { name } = JSON.parse(user) as { name?: { firstName?: unknown; lastName?: unknown } }
    const names = [name?.firstName, name?.lastName].filter(each => typeof each === 'string' && each !== '')
    return names.length > 0 ? names.join(' ') : undefined
  } catch {
    return
  }
}
