// The browser comes back from a provider. Its state is used up at once; whatever goes wrong then is told to the
// application by a redirect, in the query and in the fragment, since it may look in either.
import { randomUUID } from 'node:crypto'
import { Refusal } from '#src/kernel/errors.ts'
import { isServerError } from '#src/kernel/postgres/error-text.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { errorParameters, withFragment, withQuery } from '../mail/redirect.ts'
import type { AuthParts, ClientFacts } from '../parts.ts'
import { settingsOf } from '../settings.ts'
import { createIssue, type SessionObject } from '../sign-in.ts'
import type { Accounts } from './accounts.ts'
import { callbackUrl } from './authorize.ts'
import { type ConfiguredProvider, configuredProvider } from './configuration.ts'
import type { Exchange } from './exchange.ts'
import { type FlowSecrets, flowContext, openSecrets } from './flow-secrets.ts'
import { type Flow, insertCodeFlow, takeFlow } from './flow-store.ts'
import { badCallback, type ProviderIdentity, type ProviderTokens } from './identity.ts'
import { providerNamed } from './provider-name.ts'

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const longestCode = 4096
const longestDescription = 500

export function createCallback(parts: AuthParts, exchange: Exchange, accounts: Accounts) {
  const { databases, sealer, hashOneTime, baseUrl, log } = parts
  const issue = createIssue(parts)

  /** Where to send the browser, always. */
  return async (tenant: Tenant, given: URLSearchParams, client: ClientFacts): Promise<string> => {
    let place = settingsOf(tenant).site_url
    try {
      const state = given.get('state') ?? ''
      const flow = uuid.test(state) ? await takeFlow(databases.auth(tenant), state) : undefined
      if (!flow)
        throw new Refusal('bad_oauth_state', 'The sign-in is unknown or was used before; begin again')
      place = flow.redirect_to
      if (flow.has_expired)
        throw new Refusal('bad_oauth_state', 'The sign-in took longer than 5 minutes; begin again')
      if (given.has('error')) return withError(place, errorOfProvider(given))
      const { identity, tokens } = await identify(tenant, flow, given)
      return await finish(tenant, flow, identity, tokens, client)
    } catch (error) {
      if (!(error instanceof Refusal)) log.error({ err: error }, 'a sign-in with a provider failed')
      // What a trigger of the project raised is not for the log.
      else if (error.cause !== undefined && !isServerError(error.cause))
        log.warn({ err: error }, 'a provider did not say who somebody is')
      return withError(place, errorParameters(error instanceof Refusal ? error : unexpected))
    }
  }

  async function identify(tenant: Tenant, flow: Flow, given: URLSearchParams) {
    const name = providerNamed(flow.provider)
    const configured = name && configuredProvider(tenant, name, sealer)
    if (!configured) throw new Refusal('provider_disabled', 'The provider was switched off meanwhile')
    if (!isFrom(configured, given.get('iss')))
      throw badCallback('Another provider has answered than the one asked')
    const code = given.get('code') ?? ''
    if (code === '' || code.length > longestCode) throw badCallback('The provider sent no code')
    const { verifier, nonce } = openSecrets(sealer, tenant, flow.secrets)
    return exchange.redeem(configured, {
      code,
      redirectUri: callbackUrl(baseUrl(), tenant),
      verifier,
      nonce,
      name: nameFrom(given.get('user')),
    })
  }

  /** A client that has sent a challenge gets a code for it, any other one the session itself. */
  async function finish(
    tenant: Tenant,
    flow: Flow,
    identity: ProviderIdentity,
    tokens: ProviderTokens,
    client: ClientFacts,
  ): Promise<string> {
    const {
      redirect_to: redirectTo,
      code_challenge: challenge,
      code_challenge_method: challengeMethod,
    } = flow
    const options = { linking: linkingOf(flow), redirectTo }
    if (challenge === null || challengeMethod === null) {
      const made = await accounts.signIn(tenant, identity, options, (session, userId) =>
        issue(session, tenant, userId, 'oauth', client),
      )
      return withFragment(redirectTo, fragmentOf(made, tokens))
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

/** A provider that names itself must be the one that was asked; Microsoft has a name for each of its tenants. */
const isFrom = ({ name, provider, issuer }: ConfiguredProvider, told: string | null) =>
  told === null || provider.protocol === 'oauth2' || name === 'microsoft' || told === issuer

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

const withError = (place: string, parameters: ReturnType<typeof errorParameters>) =>
  withFragment(withQuery(place, parameters), { ...parameters, sb: '' })

/** As the provider has put it, within bounds. */
function errorOfProvider(given: URLSearchParams) {
  const error = given.get('error') ?? ''
  return {
    error: /^[a-z_]{1,64}$/.test(error) ? error : 'server_error',
    error_code: 'bad_oauth_callback',
    error_description:
      given.get('error_description')?.slice(0, longestDescription) || 'The provider has refused the sign-in',
  }
}

/** `{"name":{"firstName":…,"lastName":…}}`; the address beside it is not to be believed. */
function nameFrom(user: string | null): string | undefined {
  if (user === null || user.length > 4096) return
  try {
    const { name } = JSON.parse(user) as { name?: { firstName?: unknown; lastName?: unknown } }
    const parts = [name?.firstName, name?.lastName].filter(part => typeof part === 'string' && part !== '')
    return parts.length > 0 ? parts.join(' ') : undefined
  } catch {
    return
  }
}
