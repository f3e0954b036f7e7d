// Checks the registered claims of a JWT: times and audience. The messages are those of PostgREST, which clients know.

/** Clocks of issuers differ. Applies to `iat` and `nbf`; `exp` is exact. */
const skewSeconds = 30

type RegisteredClaims = Readonly<Partial<Record<'exp' | 'nbf' | 'iat' | 'aud', unknown>>>

export const jwtExpired = 'JWT expired'

/** What makes the claims invalid at this time, or undefined. */
export function claimsProblem({ exp, nbf, iat, aud }: RegisteredClaims, nowMs: number): string | undefined {
  for (const [name, value] of Object.entries({ exp, nbf, iat }))
    if (value !== undefined && typeof value !== 'number') return `The JWT '${name}' claim must be a number`
  if (!isAudience(aud)) return "The JWT 'aud' claim must be a string or an array of strings"
  const now = nowMs / 1000
  if (exp !== undefined && !((exp as number) > now)) return jwtExpired
  if (nbf !== undefined && (nbf as number) > now + skewSeconds) return 'JWT not yet valid'
  if (iat !== undefined && (iat as number) > now + skewSeconds) return 'JWT issued at future'
  return
}

/** Any audience is accepted. */
const isAudience = (aud: unknown): boolean =>
  aud === undefined ||
  aud === null ||
  typeof aud === 'string' ||
  (Array.isArray(aud) && aud.every(each => typeof each === 'string'))
