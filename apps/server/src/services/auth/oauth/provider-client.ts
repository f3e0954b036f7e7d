// Exchanges an authorization code or an ID token for an identity. An answer that does not identify the user is refused.
import type { Outbound } from '#src/kernel/outbound/fetch.ts'
import type { Claims } from './claims.ts'
import type { ConfiguredProvider } from './configuration.ts'
import { BadIdToken, checkForm, verifyIdToken } from './id-token.ts'
import { badCallback, type ProviderIdentity, type ProviderTokens } from './identity.ts'
import { createIssuers, type Issuer } from './issuers.ts'
import { fetchJson, fetchObject, fetchTokens } from './provider-http.ts'
import type { Endpoints } from './providers.ts'

export interface Redemption {
  code: string
  redirectUri: string
  /** PKCE code verifier, if the provider supports PKCE. */
  verifier: string | undefined
  nonce: string | undefined
  /** The name from the callback. Apple sends it only there, at the first sign-in. */
  name: string | undefined
}

export interface ProviderClient {
  /** Discovers endpoints that are not configured. */
  endpoints(configured: ConfiguredProvider): Promise<Endpoints>
  redeem(
    configured: ConfiguredProvider,
    redemption: Redemption,
  ): Promise<{ identity: ProviderIdentity; tokens: ProviderTokens }>
  /** Throws BadIdToken. */
  verify(
    configured: ConfiguredProvider,
    idToken: string,
    expected: { nonce: string | undefined; accessToken: string | undefined },
  ): Promise<ProviderIdentity>
}

export function createProviderClient(outbound: Outbound): ProviderClient {
  const issuers = createIssuers(outbound)

  async function endpoints(configured: ConfiguredProvider): Promise<Endpoints> {
    const { authorize_url, token_url, userinfo_url, issuer } = configured
    if (configured.provider.protocol === 'oauth2' || (authorize_url && token_url))
      return { authorize_url, token_url, userinfo_url, issuer }
    const discovered = await issuers.of(configured)
    return {
      authorize_url: authorize_url || discovered.authorize_url,
      token_url: token_url || discovered.token_url,
      userinfo_url: userinfo_url || discovered.userinfo_url,
      issuer,
    }
  }

  async function claimsFromIdToken(
    configured: ConfiguredProvider,
    { id_token }: Claims,
    { userinfo_url }: Endpoints,
    { accessToken }: ProviderTokens,
    nonce: string | undefined,
  ): Promise<Claims> {
    if (typeof id_token !== 'string') throw badCallback('The provider sent no ID token')
    const claims = await verifiedClaims(configured, await issuers.of(configured), id_token, nonce)
    if (claims['email'] !== undefined || userinfo_url === '') return claims
    const userinfo = await fetchObject(outbound, { url: userinfo_url, headers: bearer(accessToken) })
    if (userinfo['sub'] !== claims['sub']) throw badCallback('The provider named two different users')
    return { ...userinfo, ...claims }
  }

  const verifiedClaims = (
    configured: ConfiguredProvider,
    issuer: Issuer,
    idToken: string,
    nonce: string | undefined,
  ) =>
    verifyIdToken(idToken, configured, issuer, { nonce }).catch(error => {
      throw error instanceof BadIdToken
        ? badCallback(`The ID token is not valid: ${error.message}`, error)
        : error
    })

  async function claimsFromUserinfo(
    { provider }: ConfiguredProvider,
    { userinfo_url }: Endpoints,
    { accessToken }: ProviderTokens,
  ): Promise<Claims> {
    const headers = bearer(accessToken)
    const claims = await fetchObject(outbound, { url: userinfo_url, headers })
    if (provider.emailsPath === undefined) return claims
    return {
      ...claims,
      emails: await fetchJson(outbound, { url: userinfo_url + provider.emailsPath, headers }),
    }
  }

  return {
    endpoints,

    async redeem(configured, { code, redirectUri, verifier, nonce, name }) {
      const { provider, clientIds, clientSecret } = configured
      const urls = await endpoints(configured)
      const answer = await fetchTokens(outbound, {
        url: urls.token_url,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({
          grant_type: 'authorization_code',
          code,
          redirect_uri: redirectUri,
          client_id: clientIds[0],
          client_secret: clientSecret,
          ...(verifier !== undefined && { code_verifier: verifier }),
        }).toString(),
      })
      const tokens = tokensFrom(answer)
      const claims =
        provider.protocol === 'openid'
          ? await claimsFromIdToken(configured, answer, urls, tokens, nonce)
          : await claimsFromUserinfo(configured, urls, tokens)
      const named = name === undefined || claims['name'] !== undefined ? claims : { ...claims, name }
      return { identity: provider.identify(named, configured.issuer), tokens }
    },

    async verify(configured, idToken, expected) {
      checkForm(idToken)
      const claims = await verifyIdToken(idToken, configured, await issuers.of(configured), expected)
      return configured.provider.identify(claims, configured.issuer)
    },
  }
}

const bearer = (accessToken: string) => ({ authorization: `Bearer ${accessToken}` })

function tokensFrom({ access_token, refresh_token }: Claims): ProviderTokens {
  if (typeof access_token !== 'string' || access_token === '')
    throw badCallback('The provider sent no access token')
  return {
    accessToken: access_token,
    refreshToken: typeof refresh_token === 'string' && refresh_token !== '' ? refresh_token : undefined,
  }
}
