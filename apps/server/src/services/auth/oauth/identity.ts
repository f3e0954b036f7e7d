// Who a provider says somebody is.
import { Refusal } from '#src/kernel/errors.ts'
import type { ProviderName } from './provider-name.ts'

export interface ProviderIdentity {
  provider: ProviderName
  /** The provider's own name for the user: never empty, never reused. */
  subject: string
  /** In lower case. */
  email: string | undefined
  /** Whether the provider vouches that the address is the user's. Only then may it stand for a user of ours. */
  isEmailVerified: boolean
  /** What is kept of the claims, small enough for an access token. */
  claims: Readonly<Record<string, unknown>>
}

/** What the provider gave for calls in the user's name. */
export interface ProviderTokens {
  accessToken: string
  refreshToken: string | undefined
}

export const badCallback = (message: string, cause?: unknown) =>
  new Refusal('bad_oauth_callback', message, { cause })
