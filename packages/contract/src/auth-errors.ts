// Error codes of Auth, as its clients know them.
import type { ErrorMeaning } from './error-meaning.ts'

export const authErrors = {
  validation_failed: {
    status: 400,
    meaning: 'Auth: a field is missing or invalid; the message names it.',
  },
  bad_json: { status: 400, meaning: 'Auth: the body is not valid JSON.' },
  invalid_credentials: { status: 400, meaning: 'Auth: the e-mail address or the password is wrong.' },
  email_not_confirmed: { status: 400, meaning: 'Auth: the address must be verified before signing in.' },
  phone_provider_disabled: {
    status: 400,
    meaning: 'Auth: phone numbers are not offered; use an e-mail address.',
  },
  session_expired: {
    status: 400,
    meaning: 'Auth: the session was not refreshed in time; sign in again.',
  },
  refresh_token_not_found: { status: 400, meaning: 'Auth: no session has this refresh token.' },
  refresh_token_already_used: {
    status: 400,
    meaning: 'Auth: the refresh token was already used, so its session was ended; sign in again.',
  },
  bad_code_verifier: {
    status: 400,
    meaning: 'Auth: the code verifier does not match the challenge of this flow.',
  },
  current_password_invalid: {
    status: 400,
    meaning: 'Auth: `current_password` is not the password of the user.',
  },
  provider_disabled: { status: 400, meaning: 'Auth: this provider is not enabled for the project.' },
  oauth_provider_not_supported: { status: 400, meaning: 'Auth: no provider has this name.' },
  bad_oauth_state: {
    status: 400,
    meaning: 'Auth: the `state` in the callback of the provider is unknown, used or expired.',
  },
  bad_oauth_callback: { status: 400, meaning: 'Auth: the provider did not return the identity of the user.' },
  no_authorization: { status: 401, meaning: 'Auth: this route needs the token of a signed-in user.' },
  bad_jwt: { status: 401, meaning: 'Auth: the token is invalid or has expired; refresh the session.' },
  not_admin: { status: 403, meaning: 'Auth: this route needs the service_role key.' },
  otp_expired: {
    status: 403,
    meaning: 'Auth: the code or link is wrong, was used or has expired; request a new one.',
  },
  session_not_found: { status: 403, meaning: 'Auth: the session of this token has ended; sign in again.' },
  user_banned: { status: 403, meaning: 'Auth: the user is banned.' },
  insufficient_aal: { status: 403, meaning: 'Auth: the session must be verified with a second factor.' },
  flow_state_not_found: { status: 404, meaning: 'Auth: the flow code is unknown or was used.' },
  manual_linking_disabled: {
    status: 404,
    meaning:
      'Auth: users of the project may not link or unlink identities; see the setting `manual_linking_enabled`.',
  },
  saml_provider_disabled: { status: 404, meaning: 'Auth: sign-in with SAML or SSO is not offered.' },
  mfa_factor_not_found: { status: 404, meaning: 'Auth: the user has no factor with this id.' },
  feature_disabled: {
    status: 404,
    meaning:
      'Auth: this feature is not offered: passkeys, the OAuth server, recovery codes, custom providers.',
  },
  user_already_exists: { status: 422, meaning: 'Auth: the address is already registered.' },
  email_exists: { status: 422, meaning: 'Auth: another user has this address.' },
  weak_password: {
    status: 422,
    meaning: 'Auth: the password is too weak; `weak_password.reasons` says why.',
  },
  same_password: { status: 422, meaning: 'Auth: the new password equals the current one.' },
  signup_disabled: { status: 422, meaning: 'Auth: sign-up is disabled for the project.' },
  email_provider_disabled: {
    status: 422,
    meaning: 'Auth: sign-in with e-mail is disabled for the project.',
  },
  web3_provider_disabled: { status: 422, meaning: 'Auth: sign-in with Web3 wallets is not offered.' },
  anonymous_provider_disabled: {
    status: 422,
    meaning: 'Auth: anonymous sign-ins are disabled for the project.',
  },
  otp_disabled: { status: 422, meaning: 'Auth: sign-in by mail is disabled for the project.' },
  flow_state_expired: { status: 422, meaning: 'Auth: the sign-in took longer than 5 minutes; start again.' },
  reauthentication_not_valid: {
    status: 422,
    meaning: 'Auth: the code from GET /reauthenticate is wrong or has expired.',
  },
  identity_not_found: { status: 422, meaning: 'Auth: the user has no identity with this id.' },
  identity_already_exists: { status: 422, meaning: 'Auth: this identity already belongs to a user.' },
  single_identity_not_deletable: {
    status: 422,
    meaning: 'Auth: the last identity of a user cannot be removed.',
  },
  email_conflict_identity_not_deletable: {
    status: 422,
    meaning: 'Auth: removing this identity would give the user an address that another user has.',
  },
  mfa_factor_name_conflict: { status: 422, meaning: 'Auth: another factor of the user has this name.' },
  too_many_enrolled_mfa_factors: { status: 422, meaning: 'Auth: a user can have at most ten factors.' },
  mfa_challenge_expired: {
    status: 422,
    meaning: 'Auth: the challenge is older than 5 minutes; request a new one.',
  },
  mfa_ip_address_mismatch: {
    status: 422,
    meaning: 'Auth: the challenge was requested from another IP address.',
  },
  mfa_verification_failed: {
    status: 422,
    meaning: 'Auth: the code of the second factor is wrong or was used.',
  },
  mfa_totp_enroll_not_enabled: {
    status: 422,
    meaning: 'Auth: second factors are disabled for the project.',
  },
  mfa_phone_enroll_not_enabled: { status: 422, meaning: 'Auth: second factors by phone are not supported.' },
  mfa_webauthn_enroll_not_enabled: { status: 422, meaning: 'Auth: security keys are not supported.' },
  conflict: { status: 409, meaning: 'Auth: another request is changing this session; try again.' },
  over_email_send_rate_limit: {
    status: 429,
    meaning:
      'Auth: too many mails were sent to this address or by this project; the message says when to try again.',
  },
} as const satisfies Record<string, ErrorMeaning>
