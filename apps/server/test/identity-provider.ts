// A real OpenID provider on loopback. Its login page needs no input: it signs in the account of the cookie `account`,
// else of `login_hint`, else the first one, and grants consent.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair } from 'jose'
import Provider, { type Interaction, type KoaContextWithOIDC } from 'oidc-provider'
import { type BrowseOptions, browse, type Visit } from './browser.ts'

/** Claims of an account; `sub` is its id at the provider. */
export interface Account {
  sub: string
  email?: string
  email_verified?: boolean
  name?: string
  picture?: string
  xms_edov?: unknown
}

export interface RegisteredClient {
  client_id: string
  client_secret: string
}

export interface TokenAnswer {
  id_token: string
  access_token: string
}

export interface IdentityProvider {
  /** `http://127.0.0.1:<port>`, also where discovery is found. */
  issuer: string
  authorizeUrl: string
  tokenUrl: string
  userinfoUrl: string
  /** By login name. A test may add, change and remove accounts at any time. */
  accounts: Map<string, Account>
  /** Registers a client with these redirect URLs. */
  register(...redirectUris: string[]): Promise<RegisteredClient>
  /** Follows redirects as the browser of this account, up to the first URL outside `within` and the provider. */
  browse(url: string, options?: Partial<BrowseOptions> & { account?: string }): Promise<Visit>
  /** Tokens of this client for this account, for signing in with an ID token. */
  tokens(client: RegisteredClient, redirectUri: string, account: string, nonce?: string): Promise<TokenAnswer>
  close(): Promise<void>
}

export interface IdentityProviderOptions {
  accounts?: Readonly<Record<string, Account>>
  /** Claims are in the ID token, as with Google, or only at the userinfo endpoint. */
  claimsIn?: 'id_token' | 'userinfo'
}

export const someAccounts: Readonly<Record<string, Account>> = {
  alice: { sub: 'alice-1', email: 'alice@example.com', email_verified: true, name: 'Alice Example' },
  bob: { sub: 'bob-2', email: 'bob@example.com', email_verified: true, name: 'Bob Example' },
  mallory: { sub: 'mallory-3', email: 'mallory@example.com', email_verified: false, name: 'Mallory' },
  nobody: { sub: 'nobody-4', name: 'Nobody' },
}

export async function startIdentityProvider({
  accounts: given = someAccounts,
  claimsIn = 'id_token',
}: IdentityProviderOptions = {}): Promise<IdentityProvider> {
  const accounts = new Map(Object.entries(given))
  let answer: (request: IncomingMessage, response: ServerResponse) => void = () => {}
  const server = createServer((request, response) => answer(request, response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const provider = new Provider(issuer, {
    jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig' }] },
    cookies: { keys: [randomBytes(16).toString('hex')] },
    conformIdTokenClaims: claimsIn === 'userinfo',
    claims: {
      openid: ['sub'],
      email: ['email', 'email_verified', 'xms_edov'],
      profile: ['name', 'picture'],
    },
    scopes: ['openid', 'email', 'profile', 'name', 'offline_access'],
    responseTypes: ['code'],
    pkce: { required: () => false },
    issueRefreshToken: async () => true,
    clientBasedCORS: () => false,
    features: { devInteractions: { enabled: false }, registration: { enabled: true } },
    interactions: { url: (_context: KoaContextWithOIDC, { uid }: Interaction) => `/interaction/${uid}` },
    findAccount: (_context, sub) => {
      const account = [...accounts.values()].find(each => each.sub === sub)
      return account && { accountId: sub, claims: () => ({ ...account }) }
    },
    ttl: {
      RefreshToken: 600,
      AccessToken: 600,
      AuthorizationCode: 60,
      IdToken: 600,
      Interaction: 600,
      Session: 600,
      Grant: 600,
    },
  })

  const handle = provider.callback()
  answer = (request, response) =>
    request.url?.startsWith('/interaction/')
      ? void interact(request, response).catch(error => {
          response.statusCode = 500
          response.end(String(error))
        })
      : void handle(request, response)

  async function interact(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { prompt, params, session } = await provider.interactionDetails(request, response)
    if (prompt.name === 'login') {
      const name = cookieOf(request, 'account') ?? params['login_hint'] ?? accounts.keys().next().value
      const account = accounts.get(String(name))
      // A browser without an account cancels the sign-in.
      const result = account
        ? { login: { accountId: account.sub } }
        : { error: 'access_denied', error_description: 'The user has cancelled the sign-in' }
      await provider.interactionFinished(request, response, result)
      return
    }
    const grant = new provider.Grant({
      accountId: session?.accountId ?? '',
      clientId: String(params['client_id']),
    })
    grant.addOIDCScope(String(params['scope']))
    await provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } })
  }

  const register: IdentityProvider['register'] = async (...redirectUris) => {
    const reply = await fetch(`${issuer}/reg`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        redirect_uris: redirectUris,
        grant_types: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_method: 'client_secret_post',
      }),
    })
    if (reply.status !== 201) throw new Error(`No client: ${await reply.text()}`)
    return (await reply.json()) as RegisteredClient
  }

  const browseAs: IdentityProvider['browse'] = (url, { within = [], account, ...rest } = {}) =>
    browse(url, {
      ...rest,
      within: [issuer, ...within],
      cookies: { ...rest.cookies, ...(account !== undefined && { account }) },
    })

  return {
    issuer,
    authorizeUrl: `${issuer}/auth`,
    tokenUrl: `${issuer}/token`,
    userinfoUrl: `${issuer}/me`,
    accounts,
    register,
    browse: browseAs,
    async tokens(client, redirectUri, account, nonce) {
      const query = new URLSearchParams({
        client_id: client.client_id,
        redirect_uri: redirectUri,
        response_type: 'code',
        scope: 'openid email profile',
        ...(nonce !== undefined && { nonce }),
      })
      const { url } = await browseAs(`${issuer}/auth?${query}`, { account })
      const reply = await fetch(`${issuer}/token`, {
        method: 'POST',
        body: new URLSearchParams({
          ...client,
          grant_type: 'authorization_code',
          code: url.searchParams.get('code') ?? '',
          redirect_uri: redirectUri,
        }),
      })
      if (!reply.ok) throw new Error(`No tokens: ${await reply.text()}`)
      return (await reply.json()) as TokenAnswer
    },
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const cookieOf = (request: IncomingMessage, name: string) =>
  request.headers.cookie
    ?.split('; ')
    .find(each => each.startsWith(`${name}=`))
    ?.slice(name.length + 1)
