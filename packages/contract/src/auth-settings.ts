// Auth settings of a project and their defaults.
import type { Static } from 'typebox'
import { Type } from './type.ts'

const Seconds = (minimum: number, maximum: number, description: string) =>
  Type.Integer({ minimum, maximum, description })
const Limit = (description: string) => Type.Integer({ minimum: 0, maximum: 1_000_000, description })

export const RateLimits = Type.Object({
  token: Limit('Sign-ins and refreshes per IP address in 5 minutes. In all rate limits, 0 means unlimited.'),
  verify: Limit('Attempts to verify a code or link per IP address in 5 minutes.'),
  email: Limit('Requests that send mail per IP address in 5 minutes.'),
  anonymous: Limit('Anonymous sign-ups per IP address in 5 minutes.'),
  mfa: Limit('Second-factor challenges and codes per IP address in 5 minutes.'),
  mail: Limit('Mails of the project per hour.'),
  mail_interval_seconds: Limit('Seconds between two mails to one recipient.'),
})

export const AuthSettings = Type.Object({
  email_enabled: Type.Boolean({ description: 'Sign-up and sign-in with e-mail and password.' }),
  magic_link_enabled: Type.Boolean({ description: 'Sign-in with a link or code sent by mail.' }),
  signup_enabled: Type.Boolean({ description: 'Whether new users may sign up.' }),
  anonymous_enabled: Type.Boolean({ description: 'Sign-up without an e-mail address.' }),
  mfa_enabled: Type.Boolean({ description: 'Whether second factors can be enrolled.' }),
  auto_confirm: Type.Boolean({
    description:
      'Whether a sign-up gets a session at once. If false, the address must be verified by mail first.',
  }),
  manual_linking_enabled: Type.Boolean({
    description: 'Whether signed-in users may link and unlink identities.',
  }),
  jwt_algorithm: Type.Enum(['HS256', 'ES256'] as const, {
    description:
      'Signature of access tokens: HS256 with the JWT secret, or ES256 with a key of the project whose public part is in the JWKS.',
  }),
  min_password_length: Type.Integer({ minimum: 6, maximum: 72 }),
  session_duration_seconds: Seconds(60, 604_800, 'Lifetime of an access token.'),
  refresh_token_duration_seconds: Seconds(60, 315_360_000, 'How long a session is valid without a refresh.'),
  refresh_token_reuse_interval_seconds: Seconds(
    0,
    300,
    'How long a replaced refresh token still returns the token that replaced it.',
  ),
  otp_expiry_seconds: Seconds(60, 86_400, 'How long a code or link sent by mail is valid.'),
  site_url: Type.String({
    format: 'uri',
    maxLength: 2048,
    description: 'The target of links without a redirect URL of their own.',
  }),
  redirect_allow_list: Type.Array(Type.String({ minLength: 1, maxLength: 512 }), {
    maxItems: 50,
    description: 'Further allowed redirect URLs. * matches part of a name, ** matches anything.',
  }),
  rate_limits: RateLimits,
})
export type AuthSettings = Static<typeof AuthSettings>

export const defaultAuthSettings: AuthSettings = {
  email_enabled: true,
  magic_link_enabled: true,
  signup_enabled: true,
  anonymous_enabled: true,
  mfa_enabled: true,
  auto_confirm: true,
  manual_linking_enabled: false,
  jwt_algorithm: 'HS256',
  min_password_length: 6,
  session_duration_seconds: 3600,
  refresh_token_duration_seconds: 2_592_000,
  refresh_token_reuse_interval_seconds: 10,
  otp_expiry_seconds: 3600,
  site_url: 'http://localhost:3000',
  redirect_allow_list: [],
  rate_limits: {
    token: 150,
    verify: 30,
    email: 30,
    anonymous: 30,
    mfa: 75,
    mail: 30,
    mail_interval_seconds: 60,
  },
}
