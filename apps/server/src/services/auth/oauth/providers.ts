// The built-in sign-in providers: endpoints, scopes and the mapping of their claims.
import { type Claims, discordClaims, githubClaims, openidClaims } from './claims.ts'
import type { ProviderIdentity } from './identity.ts'
import { type ProviderName, providerNames } from './provider-name.ts'

export interface Endpoints {
  authorize_url: string
  token_url: string
  /** Empty if the ID token has all claims. */
  userinfo_url: string
  /** Issuer whose keys verify ID tokens. With `oauth2` it is only stored with the identity. */
  issuer: string
}

export interface Provider extends Endpoints {
  title: string
  /** With `openid`, an ID token says who the user is; with `oauth2`, the userinfo endpoint does. */
  protocol: 'openid' | 'oauth2'
  /** Another `iss` value of the same issuer. */
  olderIssuer?: string
  /** Scopes that give the user's address and name. */
  scopes: readonly string[]
  /** Whether the provider supports PKCE. */
  takesPkce: boolean
  /** Sent with every authorization request. */
  parameters: Readonly<Record<string, string>>
  /** Path below the userinfo endpoint that lists verified addresses, if userinfo itself does not. */
  emailsPath?: string
  /** Throws a refusal when the claims do not say who the user is. */
  identify(claims: Claims, issuer: string): ProviderIdentity
}

export const providers: Readonly<Record<ProviderName, Provider>> = {
  github: {
    title: 'GitHub',
    protocol: 'oauth2',
    authorize_url: 'https://github.com/login/oauth/authorize',
    token_url: 'https://github.com/login/oauth/access_token',
    userinfo_url: 'https://api.github.com/user',
    issuer: 'https://api.github.com',
    scopes: ['user:email'],
    takesPkce: true,
    parameters: {},
    emailsPath: '/emails',
    identify: githubClaims,
  },
  google: {
    title: 'Google',
    protocol: 'openid',
    authorize_url: 'https://accounts.google.com/o/oauth2/v2/auth',
    token_url: 'https://oauth2.googleapis.com/token',
    userinfo_url: 'https://openidconnect.googleapis.com/v1/userinfo',
    issuer: 'https://accounts.google.com',
    olderIssuer: 'accounts.google.com',
    scopes: ['openid', 'email', 'profile'],
    takesPkce: true,
    parameters: {},
    identify: (claims, issuer) => openidClaims('google', claims, issuer, claims['email_verified']),
  },
  apple: {
    title: 'Apple',
    protocol: 'openid',
    authorize_url: 'https://appleid.apple.com/auth/authorize',
    token_url: 'https://appleid.apple.com/auth/token',
    userinfo_url: '',
    issuer: 'https://appleid.apple.com',
    scopes: ['openid', 'email', 'name'],
    takesPkce: false,
    // With the scopes name or email, Apple requires form_post.
    parameters: { response_mode: 'form_post' },
    identify: (claims, issuer) => openidClaims('apple', claims, issuer, claims['email_verified']),
  },
  discord: {
    title: 'Discord',
    protocol: 'oauth2',
    authorize_url: 'https://discord.com/oauth2/authorize',
    token_url: 'https://discord.com/api/oauth2/token',
    userinfo_url: 'https://discord.com/api/users/@me',
    issuer: 'https://discord.com/api',
    scopes: ['email', 'identify'],
    takesPkce: true,
    parameters: {},
    identify: discordClaims,
  },
  microsoft: {
    title: 'Microsoft',
    protocol: 'openid',
    authorize_url: 'https://login.microsoftonline.com/common/oauth2/v2.0/authorize',
    token_url: 'https://login.microsoftonline.com/common/oauth2/v2.0/token',
    userinfo_url: 'https://graph.microsoft.com/oidc/userinfo',
    issuer: 'https://login.microsoftonline.com/common/v2.0',
    scopes: ['openid', 'email', 'profile'],
    takesPkce: true,
    parameters: {},
    // A tenant's administrator can set any address as `email`. Only xms_edov tells that its domain is verified.
    identify: (claims, issuer) => openidClaims('microsoft', claims, issuer, claims['xms_edov']),
  },
}

export interface ProviderTemplate extends Endpoints {
  provider: ProviderName
  name: string
  protocol: Provider['protocol']
  /** Used unless the project configures other scopes. */
  scopes: string[]
}

/** For `GET /api/v1/auth/templates`. */
export const providerTemplates = (): ProviderTemplate[] =>
  providerNames.map(provider => {
    const { title, protocol, authorize_url, token_url, userinfo_url, issuer, scopes } = providers[provider]
    return {
      provider,
      name: title,
      protocol,
      authorize_url,
      token_url,
      userinfo_url,
      issuer,
      scopes: [...scopes],
    }
  })
