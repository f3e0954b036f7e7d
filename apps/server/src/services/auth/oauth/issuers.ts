// What OpenID issuers publish about themselves: their endpoints and keys, asked for at the issuer alone and remembered
// for a while. Nothing in a token says where its keys are.
import type { JWTVerifyGetKey } from 'jose'
import type { Outbound } from '#src/kernel/outbound/fetch.ts'
import type { ConfiguredProvider } from './configuration.ts'
import { badCallback } from './identity.ts'
import { askForObject, askProvider } from './provider-call.ts'

export interface Issuer {
  /** As its tokens must name it; of an issuer for many tenants, `{tenantid}` stands for theirs. */
  name: string
  authorize_url: string
  token_url: string
  userinfo_url: string
  keys: JWTVerifyGetKey
}

export interface Issuers {
  of(configured: ConfiguredProvider): Promise<Issuer>
}

const rememberedMs = 600_000
const remembered = 200

export function createIssuers(outbound: Outbound): Issuers {
  const known = new Map<string, { issuer: Promise<Issuer>; askedAt: number }>()

  async function discover({ name, issuer }: ConfiguredProvider): Promise<Issuer> {
    const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
    const document = await askForObject(outbound, { url })
    const text = (claim: string) => {
      const value = document[claim]
      return typeof value === 'string' ? value : ''
    }
    const told = text('issuer')
    const isTemplate = name === 'microsoft' && isOfSameSite(told, issuer)
    if (told !== issuer && !isTemplate)
      throw badCallback('The provider describes another issuer than the one set')
    const keysUrl = text('jwks_uri')
    if (!URL.canParse(keysUrl)) throw badCallback('The provider does not say where its keys are')
    // Loaded with the first provider: it takes memory that most platforms never need.
    const { createRemoteJWKSet, customFetch } = await import('jose')
    return {
      name: told,
      authorize_url: text('authorization_endpoint'),
      token_url: text('token_endpoint'),
      userinfo_url: text('userinfo_endpoint'),
      keys: createRemoteJWKSet(new URL(keysUrl), {
        [customFetch]: async (url: string, { signal }: { signal: AbortSignal }) => {
          const { status, body } = await askProvider(outbound, { url, signal })
          return new Response(new Uint8Array(body), { status })
        },
      }),
    }
  }

  return {
    of(configured) {
      const key = `${configured.name} ${configured.issuer}`
      const found = known.get(key)
      if (found && performance.now() - found.askedAt < rememberedMs) return found.issuer
      const issuer = discover(configured)
      known.delete(key)
      if (known.size >= remembered) known.delete(known.keys().next().value!)
      const entry = { issuer, askedAt: performance.now() }
      known.set(key, entry)
      // A failure is not remembered.
      issuer.catch(() => {
        if (known.get(key) === entry) known.delete(key)
      })
      return issuer
    },
  }
}

/** Microsoft describes its issuer for everybody with a gap for the tenant in it. */
const isOfSameSite = (told: string, issuer: string) =>
  URL.canParse(told) && URL.canParse(issuer) && new URL(told).origin === new URL(issuer).origin
