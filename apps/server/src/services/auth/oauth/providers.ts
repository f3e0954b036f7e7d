// The sign-in providers as data: where each is found, what to ask it for, and which of its claims mean what.
import { type Claims, discordClaims, githubClaims, openidClaims } from './claims.ts'
import type { ProviderIdentity } from './identity.ts'
import { type ProviderName, providerNames } from './provider-name.ts'

export interface Endpoints {
  authorize_url: string
  token_url: string
  /** Empty where the ID token says it all. */
  userinfo_url: string
  /** Of ID tokens, which are found valid with its keys alone; for the others merely a name. */
  issuer: string
}

export interface Provider extends Endpoints {
  title: string
  /** With `openid`, an ID token says who the user is; with `oauth2`, the userinfo endpoint does. */
  protocol: 'openid' | 'oauth2'
  /** Another name the same issuer writes into its tokens. */
  olderIssuer?: string
  /** What has to be asked for to learn the user's address and name. */
  scopes: readonly string[]
  /** Whether it compares a code_challenge of ours. */
  takesPkce: boolean
  /** Sent with every authorization request. */
  parameters: Readonly<Record<string, string>>
  /** Verified addresses, where the userinfo endpoint does not tell of them; below the userinfo endpoint. */
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
    // Whoever asks Apple for name or address is answered by POST only.
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
    // A tenant's administrator can write any address into `email`: it counts only if its domain was proven.
    identify: (claims, issuer) => openidClaims('microsoft', claims, issuer, claims['xms_edov']),
  },
}

export interface ProviderTemplate extends Endpoints {
  provider: ProviderName
  name: string
  protocol: Provider['protocol']
  /** Recommended, and asked for unless the project's configuration lists others. */
  scopes: string[]
}

/** What an operator starts from: `GET /api/v1/auth/templates`. */
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
