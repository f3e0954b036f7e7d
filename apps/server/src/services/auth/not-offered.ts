// Features of GoTrue that Plinth does not offer. Clients that call their routes get an error that says so, with or without a
// credential, because the answer is the same for every project.
import { Refusal } from '#src/kernel/errors.ts'

const oauthServer = () =>
  new Refusal('feature_disabled', 'Plinth is not an OAuth server: this feature is not offered', {
    hint: 'Users sign in with a provider at /authorize?provider=…',
  })

const features: readonly { paths: RegExp; refusal: () => Refusal }[] = [
  {
    paths: /^(admin\/)?(sso|saml)(\/|$)/,
    refusal: () => new Refusal('saml_provider_disabled', 'Sign-in with SAML or SSO is not offered'),
  },
  {
    paths: /^(admin\/users\/[^/]+\/)?passkeys(\/|$)/,
    refusal: () => new Refusal('feature_disabled', 'Passkeys are not offered'),
  },
  {
    paths: /^(oauth\/(authorize|authorizations|clients|token|userinfo)|(user|admin)\/oauth)(\/|$)/,
    refusal: oauthServer,
  },
  { paths: /^\.well-known\/(oauth-authorization-server|openid-configuration)$/, refusal: oauthServer },
  {
    paths: /^admin\/custom-providers(\/|$)/,
    refusal: () =>
      new Refusal('feature_disabled', 'Custom providers are not offered', {
        hint: 'PUT /api/v1/projects/{id}/auth/providers configures the built-in ones.',
      }),
  },
  {
    paths: /^factors\/recovery-codes(\/|$)/,
    refusal: () => new Refusal('feature_disabled', 'Recovery codes are not offered'),
  },
]

/** The error for a path below the auth address, if it belongs to such a feature. */
export const notOffered = (path: string): Refusal | undefined =>
  features.find(({ paths }) => paths.test(path))?.refusal()

export const phoneNotOffered = () =>
  new Refusal('phone_provider_disabled', 'Phone numbers are not offered; use an email address')
