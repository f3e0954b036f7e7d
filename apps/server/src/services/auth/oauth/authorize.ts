// Starts a sign-in with a provider: builds the authorization URL and stores the flow until the callback.
import { createHash, randomUUID } from 'node:crypto'
import { randomToken } from '#src/kernel/crypto/keys.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { FlowDeps } from '../flow-deps.ts'
import { challengeFrom } from '../mail/mails.ts'
import { redirectFrom } from '../mail/redirect.ts'
import { settingsOf } from '../settings.ts'
import type { Linking } from './accounts.ts'
import { type ConfiguredProvider, configuredProvider } from './configuration.ts'
import { type FlowSecrets, flowContext } from './flow-secrets.ts'
import { insertFlow } from './flow-store.ts'
import type { ProviderClient } from './provider-client.ts'
import { providerNamed } from './provider-name.ts'

/** Parameters that the application cannot forward to the provider. */
const reserved = new Set([
  ...[
    'client_id',
    'client_secret',
    'redirect_uri',
    'response_type',
    'response_mode',
    'scope',
    'state',
    'nonce',
  ],
  ...[
    'code_challenge',
    'code_challenge_method',
    'code_verifier',
    'code',
    'grant_type',
    'request',
    'request_uri',
  ],
  ...['provider', 'redirect_to', 'scopes', 'skip_http_redirect', 'invite_token', 'flow_type', 'apikey'],
])
const maxUrlLength = 8000

export const callbackUrl = (baseUrl: string, tenant: Tenant) => `${baseUrl}/v1/${tenant.id}/auth/v1/callback`

export interface AuthorizeRequest {
  query: URLSearchParams
  referer: string | undefined
  linking: Linking | null
}

/** Returns the URL of the provider's sign-in page. */
export function createAuthorize({ databases, sealer, baseUrl }: FlowDeps, providerClient: ProviderClient) {
  return async (tenant: Tenant, { query, referer, linking }: AuthorizeRequest): Promise<string> => {
    const configured = requireProvider(tenant, query.get('provider') ?? '')
    const challenge = challengeFrom({
      code_challenge: query.get('code_challenge'),
      code_challenge_method: query.get('code_challenge_method'),
    })
    const redirectTo = redirectFrom(settingsOf(tenant), query.get('redirect_to') ?? undefined, referer)
    const { authorize_url } = await providerClient.endpoints(configured)
    const id = randomUUID()
    const secrets: FlowSecrets = {
      ...(configured.provider.takesPkce && { verifier: randomToken(48) }),
      ...(configured.provider.protocol === 'openid' && { nonce: randomToken(24) }),
    }
    const url = authorizationUrl(authorize_url, configured, query, {
      redirect_uri: callbackUrl(baseUrl(), tenant),
      state: id,
      ...(secrets.nonce !== undefined && { nonce: secrets.nonce }),
      ...(secrets.verifier !== undefined && {
        code_challenge: createHash('sha256').update(secrets.verifier).digest('base64url'),
        code_challenge_method: 'S256',
      }),
    })
    await insertFlow(databases.auth(tenant), {
      id,
      linking_user_id: linking?.userId ?? null,
      linking_session_id: linking?.sessionId ?? null,
      provider: configured.name,
      code_challenge: challenge?.challenge ?? null,
      code_challenge_method: challenge?.method ?? null,
      redirect_to: redirectTo,
      secrets: sealer.seal(JSON.stringify(secrets), flowContext(tenant)),
    })
    return url
  }

  function requireProvider(tenant: Tenant, given: string): ConfiguredProvider {
    const name = providerNamed(given)
    const configured = name && configuredProvider(tenant, name, sealer)
    if (!configured)
      throw new Refusal('validation_failed', 'Unsupported provider: provider is not enabled', {
        hint: 'An administrator can switch it on under the auth providers of the project.',
      })
    return configured
  }
}

function authorizationUrl(
  authorizeUrl: string,
  { provider, clientIds, scopes }: ConfiguredProvider,
  query: URLSearchParams,
  flowParameters: Readonly<Record<string, string>>,
): string {
  if (!URL.canParse(authorizeUrl) || !/^https?:$/.test(new URL(authorizeUrl).protocol))
    throw new Refusal('validation_failed', 'The authorize_url of this provider is not a URL')
  const url = new URL(authorizeUrl)
  for (const [name, value] of query) if (!reserved.has(name)) url.searchParams.set(name, value)
  const requestedScopes = (query.get('scopes') ?? '').split(/[\s,]+/).filter(Boolean)
  const all = {
    client_id: clientIds[0],
    response_type: 'code',
    scope: [...new Set([...scopes, ...requestedScopes])].join(' '),
    ...provider.parameters,
    ...flowParameters,
  }
  for (const [name, value] of Object.entries(all)) url.searchParams.set(name, value)
  if (url.href.length > maxUrlLength)
    throw new Refusal('validation_failed', 'Too much to forward to the provider')
  return url.href
}
