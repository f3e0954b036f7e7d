// A server with the API of GitHub and Discord that can also return invalid answers. Its authorization page needs no input:
// it signs in the account of the cookie or query `account`.
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export interface GithubAccount {
  id: unknown
  login: string
  name?: string | null
  avatar_url?: string
  /** The address in /user. GitHub returns it only if the user made it public. */
  email?: string | null
  emails: { email: string; primary: boolean; verified: boolean }[]
}

export interface DiscordAccount {
  id: unknown
  username: string
  global_name?: string | null
  avatar?: string | null
  email?: string | null
  verified?: boolean
}

/** Invalid answers of an endpoint. */
export type Misbehaviour =
  | 'error with 200'
  | 'error with 401'
  | 'not JSON'
  | 'a list'
  | 'huge'
  | 'redirect'
  | 'hanging'
  | 'empty'
  | 'compressed'

export type Endpoint = 'token' | 'user' | 'emails'

interface Issued {
  account: string
  challenge: string | null
  redirectUri: string
}

export interface GithubLike {
  url: string
  github: { authorize_url: string; token_url: string; userinfo_url: string }
  discord: { authorize_url: string; token_url: string; userinfo_url: string }
  githubAccounts: Map<string, GithubAccount>
  discordAccounts: Map<string, DiscordAccount>
  /** The token endpoint answers with a form, regardless of the Accept header. */
  answersForms: boolean
  misbehave: Map<Endpoint | 'none', Misbehaviour>
  /** Requested paths, in order. */
  requested: string[]
  close(): Promise<void>
}

export const client = { client_id: 'github-like-client', client_secret: 'github-like-secret-0123456789' }

export async function startGithubLike(): Promise<GithubLike> {
  const codes = new Map<string, Issued>()
  const tokens = new Map<string, string>()
  const server = createServer((request, response) => {
    void answer(request, response).catch(error => {
      response.statusCode = 500
      response.end(String(error))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  const like: GithubLike = {
    url,
    github: {
      authorize_url: `${url}/login/oauth/authorize`,
      token_url: `${url}/login/oauth/access_token`,
      userinfo_url: `${url}/user`,
    },
    discord: {
      authorize_url: `${url}/oauth2/authorize`,
      token_url: `${url}/api/oauth2/token`,
      userinfo_url: `${url}/api/users/@me`,
    },
    githubAccounts: new Map(),
    discordAccounts: new Map(),
    answersForms: false,
    misbehave: new Map(),
    requested: [],
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', url)
    like.requested.push(pathname)
    const misbehaviour = like.misbehave.get(endpoints[pathname] ?? 'none')
    if (misbehaviour !== undefined) return misbehaviours[misbehaviour](response, url)
    switch (pathname) {
      case '/login/oauth/authorize':
      case '/oauth2/authorize':
        return authorize(searchParams, request, response)
      case '/login/oauth/access_token':
      case '/api/oauth2/token':
        return giveToken(new URLSearchParams(await text(request)), response)
      case '/user':
        return show(response, accountOf(request, like.githubAccounts), ({ emails, ...user }) => user)
      case '/user/emails':
        return show(response, accountOf(request, like.githubAccounts), ({ emails }) => emails)
      case '/api/users/@me':
        return show(response, accountOf(request, like.discordAccounts), account => account)
      default:
        return json(response, 404, { message: 'Not Found' })
    }
  }

  function authorize(query: URLSearchParams, request: IncomingMessage, response: ServerResponse): void {
    const cookie = /(?:^|; )account=([^;]+)/.exec(request.headers.cookie ?? '')?.[1]
    const redirectUri = query.get('redirect_uri') ?? ''
    const back = new URL(redirectUri)
    back.searchParams.set('state', query.get('state') ?? '')
    const account = cookie ?? query.get('account')
    if (account === null) back.searchParams.set('error', 'access_denied')
    else {
      const code = randomUUID()
      codes.set(code, { account, challenge: query.get('code_challenge'), redirectUri })
      back.searchParams.set('code', code)
    }
    response.writeHead(302, { location: back.href }).end()
  }

  function giveToken(form: URLSearchParams, response: ServerResponse): void {
    const code = form.get('code') ?? ''
    const issued = codes.get(code)
    codes.delete(code)
    const verifier = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    const isGood =
      issued !== undefined &&
      form.get('client_id') === client.client_id &&
      form.get('client_secret') === client.client_secret &&
      form.get('redirect_uri') === issued.redirectUri &&
      (issued.challenge === null || issued.challenge === verifier)
    // GitHub reports a bad code with status 200.
    if (!isGood) return json(response, 200, badCode)
    const token = `gho_${randomUUID()}`
    tokens.set(token, issued.account)
    const granted = { access_token: token, scope: 'user:email', token_type: 'bearer' }
    if (!like.answersForms) return json(response, 200, granted)
    response.writeHead(200, { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' })
    response.end(new URLSearchParams(granted).toString())
  }

  function accountOf<T>(request: IncomingMessage, accounts: Map<string, T>): T | undefined {
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? ''
    return accounts.get(tokens.get(token) ?? '')
  }
  return like
}

const endpoints: Record<string, Endpoint> = {
  '/login/oauth/access_token': 'token',
  '/api/oauth2/token': 'token',
  '/user': 'user',
  '/user/emails': 'emails',
  '/api/users/@me': 'user',
}
const badCode = {
  error: 'bad_verification_code',
  error_description: 'The code passed is incorrect or expired.',
}
const badCredentials = { message: 'Bad credentials', documentation_url: 'https://docs.github.com/rest' }

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' })
  response.end(JSON.stringify(body))
}

function show<T>(response: ServerResponse, account: T | undefined, shown: (account: T) => unknown): void {
  if (account === undefined) json(response, 401, badCredentials)
  else json(response, 200, shown(account))
}

const misbehaviours: Record<Misbehaviour, (response: ServerResponse, url: string) => void> = {
  'error with 200': response => json(response, 200, { ...badCode, ...badCredentials }),
  'error with 401': response => json(response, 401, badCredentials),
  'not JSON': response => {
    response.writeHead(200, { 'content-type': 'text/html' })
    response.end('<html>Unicorn!</html>')
  },
  'a list': response => json(response, 200, [{ id: 1 }]),
  huge: response => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.on('error', () => {})
    const more = () => {
      while (!response.destroyed && response.write(' '.repeat(65_536)));
      if (!response.destroyed) response.once('drain', more)
    }
    more()
  },
  redirect: (response, url) => {
    response.writeHead(302, { location: `${url}/redirected` }).end()
  },
  hanging: response => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write('{')
  },
  empty: response => {
    response.writeHead(200, { 'content-type': 'application/json' }).end()
  },
  compressed: response => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
    response.end('not really')
  },
}
