// Two projects that send real mail, one that takes new users at their word and one that does not, and clients for
// them in both shapes of the URL.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { AuthClient, createClient, type Session, type User } from '@supabase/supabase-js'
import { type CallOptions, call, type Reply, startPlatform, type TestPlatform } from '../harness.ts'
import { type Mailbox, openMailbox } from '../mailbox.ts'
import { watched } from './auth-recorder.ts'

export type Auth = InstanceType<typeof AuthClient>

export interface ClientOptions {
  flow?: 'implicit' | 'pkce'
  /** The anon key unless told otherwise. */
  key?: string
  storage?: Storage
  throwOnError?: boolean
  /** Several sign-ins by way of a browser may be under way at once, each under an id of its own. */
  keepsFlowsApart?: boolean
}

export interface Shape {
  name: string
  /** Where the auth routes of a project are. */
  base(url: string, projectId: string): string
  connect(url: string, projectId: string, key: string, options: ClientOptions): Auth
}

const settingsOf = ({
  flow = 'implicit',
  storage = inMemory(),
  throwOnError = false,
  keepsFlowsApart = false,
}: ClientOptions) => ({
  flowType: flow,
  storage,
  throwOnError,
  experimental: { appendPkceFlowIdToRedirects: keepsFlowsApart },
  persistSession: true,
  autoRefreshToken: false,
})

export const shapes: readonly Shape[] = [
  {
    name: 'createClient at /v1/<project_id>',
    base: (url, projectId) => `${url}/v1/${projectId}/auth/v1`,
    connect: (url, projectId, key, options) =>
      createClient(`${url}/v1/${projectId}`, key, { auth: settingsOf(options) }).auth,
  },
  {
    name: 'AuthClient at /v1/auth/<project_id>',
    base: (url, projectId) => `${url}/v1/auth/${projectId}`,
    connect: (url, projectId, key, options) =>
      new AuthClient({
        url: `${url}/v1/auth/${projectId}`,
        headers: { apikey: key, Authorization: `Bearer ${key}` },
        ...settingsOf(options),
      }),
  },
]

export interface Storage {
  values: Map<string, string>
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

/** What a browser's local storage would be. */
export function inMemory(): Storage {
  const values = new Map<string, string>()
  return {
    values,
    getItem: key => values.get(key) ?? null,
    setItem: (key, value) => void values.set(key, value),
    removeItem: key => void values.delete(key),
  }
}

export const siteUrl = 'https://app.example.com/home'

export interface AuthProject {
  id: string
  ref: string
  anonKey: string
  serviceRoleKey: string
  jwtSecret: string
  takesUsersAtTheirWord: boolean
  connect(options?: ClientOptions): Auth
  /** Administration with the service_role key. */
  admin: Auth['admin']
  /** Calls an auth route as it is, with the anon key unless told otherwise. */
  call(method: string, path: string, options?: CallOptions): Promise<Reply>
  /** Calls a management route below the project. */
  manage(method: string, path: string, body?: unknown): Promise<Reply>
  /** Codes, links, flows and challenges are a day older than they were. */
  letADayPass(): Promise<void>
  /** Nobody has refreshed a session for two months. */
  letSessionsRest(): Promise<void>
}

export interface Stage {
  platform: TestPlatform
  mailbox: Mailbox
  /** Signs up and signs in at once. */
  open: AuthProject
  /** Waits until an address is proven. */
  careful: AuthProject
  /** One more project, with these auth settings. */
  project(settings?: Record<string, unknown>): Promise<AuthProject>
}

export interface House {
  platform: TestPlatform
  mailbox: Mailbox
  stage(shape: Shape): Stage
  stop(): Promise<void>
}

const unlimited = {
  PLATFORM_RATE_LIMIT_ANON: '0',
  PLATFORM_RATE_LIMIT_AUTHENTICATED: '0',
  PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
  // The mail server and the identity provider of the suite are on this machine.
  PLATFORM_OUTBOUND_ALLOW: '127.0.0.0/8,::1/128',
}

/** Nothing here is about limits; they have tests of their own. */
const rateLimits = {
  token: 0,
  verify: 0,
  email: 0,
  anonymous: 0,
  mfa: 0,
  mail: 0,
  mail_interval_seconds: 0,
}

export async function openHouse(): Promise<House> {
  const platform = await startPlatform({ settings: unlimited })
  const mailbox = await openMailbox()
  const stop = async () => {
    await platform.stop()
    await mailbox.stop()
  }
  const made = (settings?: Record<string, unknown>) => makeProject(platform, mailbox, settings)
  try {
    const open = await made()
    const careful = await made({ auto_confirm: false })
    const stage = (shape: Shape): Stage => {
      const seen = (project: Made) => seenIn(shape, platform, project)
      return {
        platform,
        mailbox,
        open: seen(open),
        careful: seen(careful),
        project: async settings => seen(await made(settings)),
      }
    }
    return { platform, mailbox, stage, stop }
  } catch (error) {
    // Nobody else would, and the process would wait for ever.
    await stop()
    throw error
  }
}

interface Made extends CreatedProject {
  ref: string
  takesUsersAtTheirWord: boolean
}

async function makeProject(
  platform: TestPlatform,
  mailbox: Mailbox,
  settings: Record<string, unknown> = {},
): Promise<Made> {
  const created = await platform.createProject()
  const ref = await platform.refOf(created.id)
  const manage = managementOf(platform, created.id)
  await mailbox.servedBy(platform, created.id)
  await expectOk(
    manage('PATCH', '/auth', {
      site_url: siteUrl,
      redirect_allow_list: ['https://*.preview.example.com/**'],
      rate_limits: rateLimits,
      ...settings,
    }),
  )
  await expectOk(
    manage('PUT', '/email/templates/welcome', {
      subject: welcomeSubject,
      body_html: '<p>Good to have you</p>',
      body_text: 'Good to have you',
    }),
  )
  return { ...created, ref, takesUsersAtTheirWord: settings['auto_confirm'] !== false }
}

export const welcomeSubject = 'You are one of us now'

function managementOf(platform: TestPlatform, projectId: string): AuthProject['manage'] {
  return (method, path, body) =>
    platform.call(method, `/api/v1/projects/${projectId}${path}`, { token: platform.adminToken, body })
}

async function expectOk(answer: Promise<Reply>): Promise<void> {
  const { status, body } = await answer
  assert.ok(status === 200 || status === 201, `${status} ${JSON.stringify(body)}`)
}

function seenIn(shape: Shape, platform: TestPlatform, project: Made): AuthProject {
  const { id, ref, anon_key: anonKey, service_role_key: serviceRoleKey, takesUsersAtTheirWord } = project
  const connect = ({ key = anonKey, ...options }: ClientOptions = {}) =>
    watched(shape.connect(platform.url, id, key, options))
  const age = (script: string) => platform.asSuperuser(ref, session => session.script(script).then(() => {}))
  return {
    id,
    ref,
    anonKey,
    serviceRoleKey,
    jwtSecret: project.jwt_secret,
    takesUsersAtTheirWord,
    connect,
    admin: connect({ key: serviceRoleKey }).admin,
    call: (method, path, options) =>
      call(shape.base(platform.url, id) + path, method, { apikey: anonKey, ...options }),
    manage: managementOf(platform, id),
    letADayPass: () => age(aDayPasses),
    letSessionsRest: () => age(sessionsRest),
  }
}

const aDayPasses = `
update auth.one_time_tokens set created_at = created_at - interval '1 day', expires_at = expires_at - interval '1 day';
update auth.flow_state set created_at = created_at - interval '1 day', expires_at = expires_at - interval '1 day';
update auth.mfa_challenges set created_at = created_at - interval '1 day'`

const sessionsRest = `
update auth.sessions set created_at = created_at - interval '60 days', updated_at = updated_at - interval '60 days',
  refreshed_at = refreshed_at - interval '60 days', not_after = not_after - interval '60 days'`

/** An address nobody else has. */
export const someone = (name = 'ada') => `${name}-${randomBytes(5).toString('hex')}@example.com`

export const password = 'correct horse battery'

export interface Member {
  auth: Auth
  email: string
  password: string
  session: Session
  user: User
}

/** Somebody with a proven address who is signed in. */
export async function member(project: AuthProject, options: ClientOptions = {}): Promise<Member> {
  const email = someone()
  if (!project.takesUsersAtTheirWord) {
    const { error } = await project.admin.createUser({ email, password, email_confirm: true })
    assert.equal(error, null)
    return signIn(project, email, options)
  }
  const auth = project.connect(options)
  const { data, error } = await auth.signUp({ email, password })
  assert.equal(error, null)
  return { auth, email, password, session: data.session!, user: data.user! }
}

/** The same person in one more client. */
export async function signIn(
  project: AuthProject,
  email: string,
  options: ClientOptions & { password?: string } = {},
): Promise<Member> {
  const auth = project.connect(options)
  const given = options.password ?? password
  const { data, error } = await auth.signInWithPassword({ email, password: given })
  assert.equal(error, null)
  return { auth, email, password: given, session: data.session!, user: data.user! }
}

export async function canSignIn(project: AuthProject, email: string, given: string): Promise<boolean> {
  const { error } = await project.connect().signInWithPassword({ email, password: given })
  return error === null
}

export interface Landing {
  status: number
  /** Where the browser is sent, without query and fragment. */
  place: string
  query: Record<string, string>
  fragment: Record<string, string>
}

/** What a browser gets from a link, one step at a time. */
export async function follow(link: string): Promise<Landing> {
  const reply = await fetch(link, { redirect: 'manual' })
  await reply.body?.cancel()
  const location = reply.headers.get('location')
  assert.ok(location, `${link} answered ${reply.status} without a location`)
  const url = new URL(location)
  return {
    status: reply.status,
    place: url.origin + url.pathname,
    query: Object.fromEntries(url.searchParams),
    fragment: Object.fromEntries(new URLSearchParams(url.hash.slice(1))),
  }
}

/** What the client does with a fragment it finds in the URL of a browser. */
export async function land(auth: Auth, { fragment }: Landing): Promise<{ session: Session; user: User }> {
  const { access_token = '', refresh_token = '' } = fragment
  const { data, error } = await auth.setSession({ access_token, refresh_token })
  assert.equal(error, null)
  return { session: data.session!, user: data.user! }
}
