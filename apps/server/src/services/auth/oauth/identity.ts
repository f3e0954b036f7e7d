// A user as the provider identifies it.
import { Refusal } from '#src/kernel/errors.ts'
import type { ProviderName } from './provider-name.ts'

export interface ProviderIdentity {
  provider: ProviderName
  /** The provider's id of the user: never empty, never reused. */
  subject: string
  /** In lower case. */
  email: string | undefined
  /** Only a verified address may match an existing user. */
  isEmailVerified: boolean
  /** The stored claims, small enough for an access token. */
  claims: Readonly<Record<string, unknown>>
}

/** Tokens for calls to the provider's API on behalf of the user. */
export interface ProviderTokens {
  accessToken: string
  refreshToken: string | undefined
}

export const badCallback = (message: string, cause?: unknown) =>
  new Refusal('bad_oauth_callback', message, { cause })
