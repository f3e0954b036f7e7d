// Two projects that send real mail, one that takes new users at their word and one that does not.
import assert from 'node:assert/strict'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { type CallOptions, call, type Reply, startPlatform, type TestPlatform } from '../harness.ts'
import { type Mailbox, openMailbox } from '../mailbox.ts'
import { watched } from './auth-recorder.ts'
import type { Auth, ClientOptions, Shape } from './auth-shapes.ts'

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
