// From a code, or an ID token, to an identity. Whatever a provider answers that does not clearly say who the user is
// ends in a refusal.
import type { Outbound } from '#src/kernel/outbound/fetch.ts'
import type { Claims } from './claims.ts'
import type { ConfiguredProvider } from './configuration.ts'
import { BadIdToken, verifyIdToken } from './id-token.ts'
import { badCallback, type ProviderIdentity, type ProviderTokens } from './identity.ts'
import { createIssuers, type Issuer } from './issuers.ts'
import { askForJson, askForObject, askForTokens } from './provider-call.ts'
import type { Endpoints } from './providers.ts'

export interface Redemption {
  code: string
  redirectUri: string
  /** What the challenge was made from, where the provider takes one. */
  verifier: string | undefined
  nonce: string | undefined
  /** A name that came beside the code: Apple tells it once, and not in the token. */
  name: string | undefined
}

export interface Exchange {
  /** Complete: what is not set is asked of the issuer. */
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

export function createExchange(outbound: Outbound): Exchange {
  const issuers = createIssuers(outbound)

  async function endpoints(configured: ConfiguredProvider): Promise<Endpoints> {
    const { authorize_url, token_url, userinfo_url, issuer } = configured
    if (configured.provider.protocol === 'oauth2' || (authorize_url && token_url))
      return { authorize_url, token_url, userinfo_url, issuer }
    const told = await issuers.of(configured)
    return {
      authorize_url: authorize_url || told.authorize_url,
      token_url: token_url || told.token_url,
      userinfo_url: userinfo_url || told.userinfo_url,
      issuer,
    }
  }

  async function claimsByToken(
    configured: ConfiguredProvider,
    { id_token }: Claims,
    { userinfo_url }: Endpoints,
    { accessToken }: ProviderTokens,
    nonce: string | undefined,
  ): Promise<Claims> {
    if (typeof id_token !== 'string') throw badCallback('The provider sent no ID token')
    const claims = await verified(configured, await issuers.of(configured), id_token, nonce)
    if (claims['email'] !== undefined || userinfo_url === '') return claims
    const more = await askForObject(outbound, { url: userinfo_url, headers: bearer(accessToken) })
    if (more['sub'] !== claims['sub']) throw badCallback('The provider told of two different users')
    return { ...more, ...claims }
  }

  const verified = (
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

  async function claimsByUserinfo(
    { provider }: ConfiguredProvider,
    { userinfo_url }: Endpoints,
    { accessToken }: ProviderTokens,
  ): Promise<Claims> {
    const headers = bearer(accessToken)
    const claims = await askForObject(outbound, { url: userinfo_url, headers })
    if (provider.emailsPath === undefined) return claims
    return {
      ...claims,
      emails: await askForJson(outbound, { url: userinfo_url + provider.emailsPath, headers }),
    }
  }

  return {
    endpoints,

    async redeem(configured, { code, redirectUri, verifier, nonce, name }) {
      const { provider, clientIds, clientSecret } = configured
      const places = await endpoints(configured)
      const answer = await askForTokens(outbound, {
        url: places.token_url,
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
          ? await claimsByToken(configured, answer, places, tokens, nonce)
          : await claimsByUserinfo(configured, places, tokens)
      const named = name === undefined || claims['name'] !== undefined ? claims : { ...claims, name }
      return { identity: provider.identify(named, configured.issuer), tokens }
    },

    async verify(configured, idToken, expected) {
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
