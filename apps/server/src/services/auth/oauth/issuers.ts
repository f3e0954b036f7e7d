// OpenID discovery: endpoints and keys of an issuer, fetched from the configured issuer and cached. A token never decides
// where its keys come from.
import type { JWTVerifyGetKey } from 'jose'
import type { Outbound } from '#src/kernel/outbound/fetch.ts'
import type { ConfiguredProvider } from './configuration.ts'
import { badCallback } from './identity.ts'
import { callProvider, fetchObject } from './provider-http.ts'

export interface Issuer {
  /** The `iss` claim of its tokens. Microsoft's multi-tenant issuer has the placeholder `{tenantid}`. */
  name: string
  authorize_url: string
  token_url: string
  userinfo_url: string
  keys: JWTVerifyGetKey
}

export interface Issuers {
  of(configured: ConfiguredProvider): Promise<Issuer>
}

const cacheMs = 600_000
const maxCached = 200

export function createIssuers(outbound: Outbound): Issuers {
  const cache = new Map<string, { issuer: Promise<Issuer>; fetchedAt: number }>()

  async function discover({ name, issuer }: ConfiguredProvider): Promise<Issuer> {
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
    const document = await fetchObject(outbound, { url })
    const text = (claim: string) => {
      const value = document[claim]
      return typeof value === 'string' ? value : ''
    }
    const declared = text('issuer')
    const isTemplate = name === 'microsoft' && isOfSameSite(declared, issuer)
    if (declared !== issuer && !isTemplate)
      throw badCallback('The provider describes another issuer than the one set')
    const keysUrl = text('jwks_uri')
    if (!URL.canParse(keysUrl)) throw badCallback('The provider does not say where its keys are')
    // Imported on first use, because it takes memory that most platforms never need.
    const { createRemoteJWKSet, customFetch } = await import('jose')
    return {
      name: declared,
      authorize_url: text('authorization_endpoint'),
      token_url: text('token_endpoint'),
      userinfo_url: text('userinfo_endpoint'),
      keys: createRemoteJWKSet(new URL(keysUrl), {
        [customFetch]: async (url: string, { signal }: { signal: AbortSignal }) => {
          const { status, body } = await callProvider(outbound, { url, signal })
          return new Response(new Uint8Array(body), { status })
        },
      }),
    }
  }

  return {
    of(configured) {
      const key = `${configured.name} ${configured.issuer}`
      const found = cache.get(key)
      if (found && performance.now() - found.fetchedAt < cacheMs) return found.issuer
      const issuer = discover(configured)
      cache.delete(key)
      if (cache.size >= maxCached) cache.delete(cache.keys().next().value!)
      const entry = { issuer, fetchedAt: performance.now() }
      cache.set(key, entry)
      // Do not cache a failure.
      issuer.catch(() => {
        if (cache.get(key) === entry) cache.delete(key)
      })
      return issuer
    },
  }
}

/** Microsoft's multi-tenant discovery document has an issuer with a tenant placeholder. */
const isOfSameSite = (declared: string, issuer: string) =>
  URL.canParse(declared) && URL.canParse(issuer) && new URL(declared).origin === new URL(issuer).origin
