// Two projects that send real mail, one with auto_confirm and one without.
import assert from 'node:assert/strict'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { type CallOptions, call, type Reply, startPlatform, type TestPlatform } from '../harness.ts'
import { type Mailbox, openMailbox } from '../mailbox.ts'
import { recordCalls } from './auth-recorder.ts'
import type { Auth, ClientOptions, Shape } from './auth-shapes.ts'

export const siteUrl = 'https://app.example.com/home'

export interface AuthProject {
  id: string
  ref: string
  anonKey: string
  serviceRoleKey: string
  jwtSecret: string
  isAutoConfirmed: boolean
  connect(options?: ClientOptions): Auth
  /** The admin API with the service_role key. */
  admin: Auth['admin']
  /** Calls an auth route directly, by default with the anon key. */
  call(method: string, path: string, options?: CallOptions): Promise<Reply>
  /** Calls a management route below the project. */
  manage(method: string, path: string, body?: unknown): Promise<Reply>
  /** Makes codes, links, flows and challenges a day older. */
  expireTokens(): Promise<void>
  /** Sets the last refresh of all sessions to two months ago. */
  expireSessions(): Promise<void>
}

export interface Setup {
  platform: TestPlatform
  mailbox: Mailbox
  /** With auto_confirm. */
  open: AuthProject
  /** Without auto_confirm. */
  confirming: AuthProject
  /** Creates another project with these auth settings. */
  project(settings?: Record<string, unknown>): Promise<AuthProject>
}

export interface TestServer {
  platform: TestPlatform
  mailbox: Mailbox
  setup(shape: Shape): Setup
  stop(): Promise<void>
}

const unlimited = {
  PLATFORM_RATE_LIMIT_ANON: '0',
  PLATFORM_RATE_LIMIT_AUTHENTICATED: '0',
  PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
  // The mail server and the identity provider of the suite are on this machine.
  PLATFORM_OUTBOUND_ALLOW: '127.0.0.0/8,::1/128',
}

/** Rate limits are off. They have their own tests. */
const rateLimits = {
  token: 0,
  verify: 0,
  email: 0,
  anonymous: 0,
  mfa: 0,
  mail: 0,
  mail_interval_seconds: 0,
}

export async function startTestServer(): Promise<TestServer> {
  const platform = await startPlatform({ settings: unlimited })
  const mailbox = await openMailbox()
  const stop = async () => {
    await platform.stop()
    await mailbox.stop()
  }
  const made = (settings?: Record<string, unknown>) => makeProject(platform, mailbox, settings)
  try {
    const open = await made()
    const confirming = await made({ auto_confirm: false })
    const setup = (shape: Shape): Setup => {
      const seen = (project: Made) => seenIn(shape, platform, project)
      return {
        platform,
        mailbox,
        open: seen(open),
        confirming: seen(confirming),
        project: async settings => seen(await made(settings)),
      }
    }
    return { platform, mailbox, setup, stop }
  } catch (error) {
    // Otherwise the process would never end.
    await stop()
    throw error
  }
}

interface Made extends CreatedProject {
  ref: string
  isAutoConfirmed: boolean
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
  return { ...created, ref, isAutoConfirmed: settings['auto_confirm'] !== false }
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
  const { id, ref, anon_key: anonKey, service_role_key: serviceRoleKey, isAutoConfirmed } = project
  const connect = ({ key = anonKey, ...options }: ClientOptions = {}) =>
    recordCalls(shape.connect(platform.url, id, key, options))
  const age = (script: string) => platform.asSuperuser(ref, session => session.script(script).then(() => {}))
  return {
    id,
    ref,
    anonKey,
    serviceRoleKey,
    jwtSecret: project.jwt_secret,
    isAutoConfirmed,
    connect,
    admin: connect({ key: serviceRoleKey }).admin,
    call: (method, path, options) =>
      call(shape.base(platform.url, id) + path, method, { apikey: anonKey, ...options }),
    manage: managementOf(platform, id),
    expireTokens: () => age(aDayPasses),
    expireSessions: () => age(sessionsRest),
  }
}

const aDayPasses = `
update auth.one_time_tokens set created_at = created_at - interval '1 day', expires_at = expires_at - interval '1 day';
update auth.flow_state set created_at = created_at - interval '1 day', expires_at = expires_at - interval '1 day';
update auth.mfa_challenges set created_at = created_at - interval '1 day'`

const sessionsRest = `
update auth.sessions set created_at = created_at - interval '60 days', updated_at = updated_at - interval '60 days',
  refreshed_at = refreshed_at - interval '60 days', not_after = not_after - interval '60 days'`
