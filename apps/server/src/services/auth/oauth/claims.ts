// From what a provider says to an identity. An answer that is an error, or names nobody, never becomes one: a user
// with an empty name would be everybody's.
import { addressFrom } from '../mail/address.ts'
import { badCallback, type ProviderIdentity } from './identity.ts'
import type { ProviderName } from './provider-name.ts'

export type Claims = Readonly<Record<string, unknown>>

// In bytes. All of it is repeated in access tokens, beside what the application itself keeps there.
const longestSubject = 255
const longestText = 256
const longestUrl = 512
const mostClaims = 4096

interface Told {
  provider: ProviderName
  subject: string
  email: unknown
  isEmailVerified: boolean
  issuer: string
  name: unknown
  userName: unknown
  picture: unknown
  more: Claims
}

export function openidClaims(
  provider: ProviderName,
  claims: Claims,
  issuer: string,
  proof: unknown,
): ProviderIdentity {
  const { sub, email, name, preferred_username, picture } = claims
  return identityFrom({
    provider,
    subject: textSubject(sub),
    email,
    isEmailVerified: isAffirmed(proof),
    issuer,
    name,
    userName: preferred_username,
    picture,
    more: Object.fromEntries(Object.entries(claims).filter(([claim]) => !aboutTheToken.has(claim))),
  })
}

/** `emails` are those of /user/emails; what /user shows of the address proves nothing. */
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
    more: {},
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
    more: { custom_claims: { global_name: textOf(global_name) } },
  })
}

function identityFrom(told: Told): ProviderIdentity {
  const { provider, subject, issuer, more } = told
  const email = addressOf(told.email)
  const isEmailVerified = email !== undefined && told.isEmailVerified
  const name = textOf(told.name)
  const userName = textOf(told.userName)
  const picture = urlOf(told.picture)
  const known = {
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
  const claims = { ...(cleaned(more) as object), ...known }
  return {
    provider,
    subject,
    email,
    isEmailVerified,
    claims: Buffer.byteLength(JSON.stringify(claims)) <= mostClaims ? claims : known,
  }
}

/** Claims that speak of the token, not of the user; and `email` and `sub`, which are taken as they were read. */
const aboutTheToken = new Set(
  'iss sub aud exp nbf iat jti nonce at_hash c_hash s_hash azp auth_time sid acr amr email email_verified'.split(
    ' ',
  ),
)

function textSubject(sub: unknown): string {
  if (
    typeof sub !== 'string' ||
    sub.trim() === '' ||
    Buffer.byteLength(sub) > longestSubject ||
    !isStorable(sub)
  )
    throw badCallback('The provider did not say who the user is')
  return sub
}

/** An account's number, which begins at 1: zero is what an error looks like to whoever reads it as a user. */
function numberSubject(id: unknown): string {
  const subject = typeof id === 'number' && Number.isSafeInteger(id) ? String(id) : id
  if (typeof subject !== 'string' || !/^[1-9]\d{0,38}$/.test(subject))
    throw badCallback('The provider did not say who the user is')
  return subject
}

/** Providers write it as a truth value, a number or a text. */
const isAffirmed = (claim: unknown) => claim === true || claim === 'true' || claim === 1 || claim === '1'

/** An address nobody could sign up with is none. */
function addressOf(email: unknown): string | undefined {
  if (typeof email !== 'string' || !isStorable(email)) return
  try {
    return addressFrom(email)
  } catch {
    return
  }
}

/** Postgres stores neither a NUL nor half a character. */
const isStorable = (text: string) => text.isWellFormed() && !text.includes('\0')

function textOf(claim: unknown): string | undefined {
  if (typeof claim !== 'string') return
  const bytes = Buffer.from(claim.replace(/\p{Cc}/gu, ''))
  // Cut inside a character, half of it is left at the end.
  return (
    bytes
      .subarray(0, longestText)
      .toString('utf8')
      .replace(/\ufffd$/, '') || undefined
  )
}

/** A part of a URL would lead elsewhere. */
const urlOf = (claim: unknown): string | undefined =>
  typeof claim === 'string' && isStorable(claim) && Buffer.byteLength(claim) <= longestUrl
    ? claim || undefined
    : undefined

const storable = (text: string) => text.toWellFormed().replaceAll('\0', '')

function cleaned(value: unknown, depth = 0): unknown {
  if (typeof value === 'string') return storable(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth > 5) return null
  if (Array.isArray(value)) return value.map(each => cleaned(each, depth + 1))
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [storable(name), cleaned(each, depth + 1)]),
  )
}
