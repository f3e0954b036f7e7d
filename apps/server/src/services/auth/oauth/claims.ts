// Maps a provider's claims to an identity. Claims without a valid subject are rejected: all users with an empty subject
// would share one account.
import { addressFrom } from '../mail/address.ts'
import { badCallback, type ProviderIdentity } from './identity.ts'
import type { ProviderName } from './provider-name.ts'

export type Claims = Readonly<Record<string, unknown>>

// Limits in bytes. Access tokens repeat all of it next to the metadata of the application.
const maxSubjectBytes = 255
const maxTextBytes = 256
const maxUrlBytes = 512
const maxClaimsBytes = 4096

interface ProviderProfile {
  provider: ProviderName
  subject: string
  email: unknown
  isEmailVerified: boolean
  issuer: string
  name: unknown
  userName: unknown
  picture: unknown
  extra: Claims
}

export function openidClaims(
  provider: ProviderName,
  claims: Claims,
  issuer: string,
  emailVerified: unknown,
): ProviderIdentity {
  const { sub, email, name, preferred_username, picture } = claims
  return identityFrom({
    provider,
    subject: textSubject(sub),
    email,
    isEmailVerified: isTrue(emailVerified),
    issuer,
    name,
    userName: preferred_username,
    picture,
    extra: Object.fromEntries(Object.entries(claims).filter(([claim]) => !tokenClaims.has(claim))),
  })
}

/** `emails` come from /user/emails. The address in /user is not verified. */
export function githubClaims(
  { id, login, name, avatar_url, emails }: Claims,
  issuer: string,
): ProviderIdentity {
  const primary = (Array.isArray(emails) ? emails : []).find(each => each?.primary === true)
  return identityFrom({
    provider: 'github',
    subject: numberSubject(id),
    email: primary?.email,
    isEmailVerified: primary?.verified === true,
    issuer,
    name,
    userName: login,
    picture: avatar_url,
    extra: {},
  })
}

export function discordClaims(
  { id, username, global_name, avatar, email, verified }: Claims,
  issuer: string,
): ProviderIdentity {
  const subject = numberSubject(id)
  const hasPicture = typeof avatar === 'string' && /^\w{1,64}$/.test(avatar)
  return identityFrom({
    provider: 'discord',
    subject,
    email,
    isEmailVerified: verified === true,
    issuer,
    name: global_name ?? username,
    userName: username,
    picture: hasPicture ? `https://cdn.discordapp.com/avatars/${subject}/${avatar}.png` : undefined,
    extra: { custom_claims: { global_name: textOf(global_name) } },
  })
}

function identityFrom(profile: ProviderProfile): ProviderIdentity {
  const { provider, subject, issuer, extra } = profile
  const email = addressOf(profile.email)
  const isEmailVerified = email !== undefined && profile.isEmailVerified
  const name = textOf(profile.name)
  const userName = textOf(profile.userName)
  const picture = urlOf(profile.picture)
  const standardClaims = {
    iss: issuer,
    sub: subject,
    provider_id: subject,
    ...(email !== undefined && { email }),
    email_verified: isEmailVerified,
    phone_verified: false,
    ...(name !== undefined && { name, full_name: name }),
    ...(userName !== undefined && { preferred_username: userName, user_name: userName }),
    ...(picture !== undefined && { picture, avatar_url: picture }),
  }
  const claims = { ...(sanitized(extra) as object), ...standardClaims }
  return {
    provider,
    subject,
    email,
    isEmailVerified,
    claims: Buffer.byteLength(JSON.stringify(claims)) <= maxClaimsBytes ? claims : standardClaims,
  }
}

/** Claims about the token, and `email` and `sub`, which are set from their parsed values. */
const tokenClaims = new Set(
  'iss sub aud exp nbf iat jti nonce at_hash c_hash s_hash azp auth_time sid acr amr email email_verified'.split(
    ' ',
  ),
)

function textSubject(sub: unknown): string {
  if (
    typeof sub !== 'string' ||
    sub.trim() === '' ||
    Buffer.byteLength(sub) > maxSubjectBytes ||
    !isStorable(sub)
  )
    throw badCallback('The provider did not say who the user is')
  return sub
}

/** A numeric account id, from 1. An error body parsed as a user has 0 or none. */
function numberSubject(id: unknown): string {
  const subject = typeof id === 'number' && Number.isSafeInteger(id) ? String(id) : id
  if (typeof subject !== 'string' || !/^[1-9]\d{0,38}$/.test(subject))
    throw badCallback('The provider did not say who the user is')
  return subject
}

/** Providers send a boolean, a number or a string. */
const isTrue = (claim: unknown) => claim === true || claim === 'true' || claim === 1 || claim === '1'

/** Undefined for an address that a sign-up would reject. */
function addressOf(email: unknown): string | undefined {
  if (typeof email !== 'string' || !isStorable(email)) return
  try {
    return addressFrom(email)
  } catch {
    return
  }
}

/** Postgres rejects NUL characters and lone surrogates. */
const isStorable = (text: string) => text.isWellFormed() && !text.includes('\0')

function textOf(claim: unknown): string | undefined {
  if (typeof claim !== 'string') return
  const bytes = Buffer.from(claim.replace(/\p{Cc}/gu, ''))
  // A cut inside a multibyte character leaves a replacement character at the end.
  return (
    bytes
      .subarray(0, maxTextBytes)
      .toString('utf8')
      .replace(/\ufffd$/, '') || undefined
  )
}

/** Drops a URL that is too long, because a shortened one would point elsewhere. */
const urlOf = (claim: unknown): string | undefined =>
  typeof claim === 'string' && isStorable(claim) && Buffer.byteLength(claim) <= maxUrlBytes
    ? claim || undefined
    : undefined

const storable = (text: string) => text.toWellFormed().replaceAll('\0', '')

function sanitized(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return storable(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth > 5) return null
  if (Array.isArray(value)) return value.map(each => sanitized(each, depth + 1))
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [storable(name), sanitized(each, depth + 1)]),
  )
}
