// A project with a real OpenID provider and a test server for GitHub and Discord, and a browser that signs in there.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type BrowseOptions, browse } from './browser.ts'
import { type GithubLike, client as githubClient } from './github-like.ts'
import { type CallOptions, call, type Reply, type TestPlatform } from './harness.ts'
import type { IdentityProvider, RegisteredClient } from './identity-provider.ts'

export const site = 'https://app.example.com/home'

export interface Landing {
  /** The final URL of the browser, without query and fragment. */
  place: string
  query: Record<string, string>
  fragment: Record<string, string>
}

export interface OauthStage {
  project: CreatedProject
  /** At the OpenID provider. */
  client: RegisteredClient
  callback: string
  /** Merges into the auth settings of the project. */
  configure(settings: Record<string, unknown>): Promise<void>
  /** The same for one provider, merged over its settings. */
  configureProvider(name: string, settings: Record<string, unknown>): Promise<void>
  call(method: string, path: string, options?: CallOptions): Promise<Reply>
  /** The URL of an unauthenticated route. */
  url(path: string, query?: Record<string, string>): string
  /** A whole sign-in in a browser, up to the redirect to the application. */
  signIn(provider: string, account: string, options?: SignInOptions): Promise<Landing>
  /** The same up to the provider's redirect to the callback, which is not followed. */
  answerOf(provider: string, account: string, options?: SignInOptions): Promise<URL>
  deliver(answer: URL): Promise<Landing>
  /** Queries the project's database as superuser. */
  rows<T = any>(statement: ReturnType<typeof sql>): Promise<T[]>
  /** Counts of users, identities and sessions, which a failed attempt must not change. */
  counts(): Promise<{ users: number; identities: number; sessions: number }>
}

export interface SignInOptions {
  query?: Record<string, string>
  fields?: Record<string, string>
}

export async function openOauthStage(
  platform: TestPlatform,
  identity: IdentityProvider,
  github: GithubLike,
  settings: Record<string, unknown> = {},
): Promise<OauthStage> {
  const project = await platform.createProject()
  const { id } = project
  const base = `${platform.url}/v1/${id}/auth/v1`
  const callback = `${base}/callback`
  const client = await identity.register(callback)
  const openid = { ...client, enabled: true, issuer: identity.issuer }
  let stored: Record<string, any> = {
    site_url: site,
    manual_linking_enabled: true,
    rate_limits: { token: 0, verify: 0, email: 0, anonymous: 0, mfa: 0, mail: 0, mail_interval_seconds: 0 },
    providers: {
      google: openid,
      apple: openid,
      microsoft: openid,
      github: { ...githubClient, enabled: true, ...github.github },
      discord: { ...githubClient, enabled: true, ...github.discord },
    },
    ...settings,
  }
  const store = () => platform.projects.update({ params: { id }, body: { settings: { auth: stored } } })
  await store()
  const ref = await platform.refOf(id)
  const rows: OauthStage['rows'] = statement => platform.asSuperuser(ref, session => session.rows(statement))
  const within = [identity.issuer, github.url]

  const url: OauthStage['url'] = (path, query = {}) => `${base}/${path}?${new URLSearchParams(query)}`
  const start = (provider: string, { query = {} }: SignInOptions) => url('authorize', { provider, ...query })
  const walk = async (from: string, account: string, options: Partial<BrowseOptions>) =>
    browse(from, {
      within: [...within, ...(options.within ?? [])],
      cookies: { account },
      ...fieldsOf(options),
    })

  return {
    project,
    client,
    callback,
    async configure(changes) {
      stored = { ...stored, ...changes }
      await store()
    },
    async configureProvider(name, changes) {
      const providers = stored['providers'] as Record<string, object>
      stored = { ...stored, providers: { ...providers, [name]: { ...providers[name], ...changes } } }
      await store()
    },
    call: (method, path, options = {}) =>
      call(`${base}/${path}`, method, { apikey: project.anon_key, ...options }),
    url,
    async signIn(provider, account, options = {}) {
      const { url: end } = await walk(start(provider, options), account, {
        ...options,
        within: [platform.url],
      })
      return landingOf(end)
    },
    async answerOf(provider, account, options = {}) {
      const first = await fetch(start(provider, options), { redirect: 'manual' })
      assert.equal(first.status, 302, await first.text())
      const { url: end } = await walk(first.headers.get('location')!, account, options)
      return end
    },
    async deliver(answer) {
      const reply = await fetch(answer, { redirect: 'manual' })
      assert.equal(reply.status, 302, await reply.text())
      return landingOf(new URL(reply.headers.get('location')!))
    },
    rows,
    async counts() {
      const [counts] = await rows<{ users: number; identities: number; sessions: number }>(sql`
        select (select count(*)::int from auth.users) as users,
               (select count(*)::int from auth.identities) as identities,
               (select count(*)::int from auth.sessions) as sessions`)
      return counts!
    },
  }
}

const fieldsOf = ({ fields }: Partial<BrowseOptions>) => (fields === undefined ? {} : { fields })

export const landingOf = (end: URL): Landing => ({
  place: end.origin + end.pathname,
  query: Object.fromEntries(end.searchParams),
  fragment: Object.fromEntries(new URLSearchParams(end.hash.slice(1))),
})

/** A PKCE verifier and its challenge. */
export function newPkce() {
  const verifier = randomBytes(56).toString('hex')
  const code_challenge = createHash('sha256').update(verifier).digest('base64url')
  return { verifier, query: { code_challenge, code_challenge_method: 's256' } }
}

/** A unique name, address and account number. */
export function someone(name = 'ada') {
  const unique = randomBytes(5).toString('hex')
  return {
    name: `${name}-${unique}`,
    email: `${name}-${unique}@example.com`,
    number: randomBytes(4).readUInt32BE() + 1,
  }
}
