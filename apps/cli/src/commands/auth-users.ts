// Users of a project and their sessions.
import type { User, UserSession } from '@plinth/contract/users.ts'
import type { Answer, Context } from '../context.ts'
import { expiryTime } from '../expiry.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import type { Platform } from '../platform.ts'
import { clean, fields, minute, type Paint, table } from '../print.ts'
import { isId, openProject } from '../project.ts'

const defaultLimit = 100
const pageSize = 100

export async function listUsers(context: Context): Promise<Answer> {
  const { search } = context.given.values
  const limit = limitGiven(context.given.values['limit'])
  const { platform, id } = await openProject(context)
  const { users, total } = await newest(platform, id, limit, search)
  return {
    data: { users, total },
    hints: listHints(users.length, total, search),
    text: paint =>
      users.length === 0
        ? ''
        : table(paint, ['ID', 'EMAIL', 'PROVIDERS', 'STATE', 'LAST SIGN-IN', 'CREATED'], users.map(userRow)),
  }
}

async function newest(platform: Platform, id: string, limit: number, search: string | undefined) {
  const users: User[] = []
  for (;;) {
    const page = { limit: Math.min(limit - users.length, pageSize), offset: users.length }
    const found = await platform.users.list({ params: { id }, query: { ...page, ...(search && { search }) } })
    users.push(...found.users)
    if (found.users.length === 0 || users.length >= Math.min(limit, found.total))
      return { users, total: found.total }
  }
}

function listHints(shown: number, total: number, search: string | undefined): string[] {
  if (shown < total) return [`${shown} of ${total}, newest first. Use --search or --limit for others.`]
  if (total > 0) return []
  return [
    search
      ? `No address contains "${clean(search)}".`
      : 'No users yet. Users sign up, or are created with plinth auth users create or import.',
  ]
}

function limitGiven(text: string | undefined): number {
  if (text === undefined) return defaultLimit
  if (/^[1-9]\d{0,6}$/.test(text)) return Number(text)
  throw new Failure('usage_invalid_value', `--limit cannot be "${text}": it must be a number of at least 1.`)
}

const userRow = (user: User): (string | null)[] => [
  user.id,
  user.email,
  user.providers.join(', '),
  stateOf(user),
  minute(user.last_sign_in_at),
  minute(user.created_at),
]

const stateOf = (user: User): string =>
  user.is_banned
    ? 'banned'
    : user.is_anonymous
      ? 'anonymous'
      : user.email_confirmed_at === null
        ? 'unconfirmed'
        : 'active'

export async function showUser(context: Context): Promise<Answer> {
  const { user } = await namedUser(context)
  return { data: user, text: paint => userText(paint, user) }
}

const userText = (paint: Paint, user: User): string =>
  fields(paint, [
    ['id', user.id],
    ['email', user.email],
    ['state', stateOf(user)],
    ...(user.is_banned
      ? ([
          ['banned until', banEnd(user)],
          ['ban reason', user.ban_reason],
        ] as const)
      : []),
    ['role', user.role],
    ['providers', user.providers.join(', ')],
    ['confirmed', minute(user.email_confirmed_at)],
    ['last sign-in', minute(user.last_sign_in_at)],
    ['user metadata', JSON.stringify(user.user_metadata)],
    ['app metadata', JSON.stringify(user.app_metadata)],
    ['created', minute(user.created_at)],
    ['updated', minute(user.updated_at)],
  ])

/** The platform stores a permanent ban as one until the year 9999. */
const banEnd = ({ banned_until }: User): string =>
  banned_until?.startsWith('9999-') ? 'permanent' : minute(banned_until)

export async function createUser(context: Context): Promise<Answer> {
  const { values, switches } = context.given
  const { platform, id } = await openProject(context)
  const { newPassword } = await import('../prompt.ts')
  const password = switches.has('no-password') ? null : await newPassword(context)
  const user = await platform.users.create({
    params: { id },
    body: { email: values['email']!, ...(password !== null && { password }) },
  })
  return {
    data: user,
    text: paint => userText(paint, user),
    hints:
      user.email_confirmed_at === null
        ? [
            'The address is not confirmed. The user must confirm it with the link in the mail before signing in.',
          ]
        : [],
  }
}

export async function banUser(context: Context): Promise<Answer> {
  const { reason, expires } = context.given.values
  const expires_at = expires === undefined ? undefined : expiryTime(expires, Date.now())
  const { platform, params } = await namedUser(context)
  const body = { ...(reason !== undefined && { reason }), ...(expires_at !== undefined && { expires_at }) }
  const user = await platform.users.ban({ params, body })
  return {
    data: user,
    text: () => `Banned ${nameOf(user)} ${until(user)}.`,
    hints: ['Tokens of the user are rejected within a second. plinth auth users unban lifts the ban.'],
  }
}

const until = (user: User) => (banEnd(user) === 'permanent' ? 'permanently' : `until ${banEnd(user)}`)

export async function unbanUser(context: Context): Promise<Answer> {
  const { platform, params } = await namedUser(context)
  const user = await platform.users.unban({ params })
  return { data: user, text: () => `${nameOf(user)} is no longer banned.` }
}

export async function deleteUser(context: Context): Promise<Answer> {
  const { platform, params, user } = await namedUser(context)
  await confirmDelete(context, user)
  await platform.users.remove({ params })
  return {
    data: { id: user.id, email: user.email, deleted: true },
    text: () => `Deleted ${nameOf(user)}.`,
  }
}

async function confirmDelete(context: Context, user: User): Promise<void> {
  const { given, screen } = context
  const confirmed = given.values['confirm']
  if (confirmed !== undefined) return compareNames(confirmed, user)
  if (given.switches.has('yes')) return
  const name = user.email ?? user.id
  if (!screen.isInteractive)
    throw new Failure(
      'confirmation_missing',
      `Deleting ${clean(name)} needs a confirmation, and there is no terminal to ask for it.`,
      `Run it again with --confirm ${name}`,
    )
  const { ask } = await import('../prompt.ts')
  screen.hint(
    `${clean(name)}, created ${minute(user.created_at)}: the user will be deleted permanently with all identities and sessions.`,
  )
  compareNames(await ask(context, `Type ${clean(name)} to delete the user: `), user)
}

function compareNames(typed: string, { id, email }: User): void {
  const given = typed.trim().toLowerCase()
  if (given === email || given === id) return
  throw new Failure(
    'confirmation_mismatch',
    `"${typed}" is neither the address nor the id of the user ${email ?? id}. Nothing was deleted.`,
    `To delete that user, confirm with ${email ?? id}`,
  )
}

export async function listSessions(context: Context): Promise<Answer> {
  const { platform, params, user } = await namedUser(context)
  const sessions = await everyPage(async query => {
    const page = await platform.users.listSessions({ params, query })
    return { items: page.sessions, total: page.total }
  })
  return {
    data: { sessions, total: sessions.length },
    hints: sessions.length === 0 ? [`${nameOf(user)} has no session.`] : [],
    text: paint =>
      sessions.length === 0
        ? ''
        : table(paint, ['ID', 'CREATED', 'REFRESHED', 'ADDRESS', 'AAL', 'CLIENT'], sessions.map(sessionRow)),
  }
}

const sessionRow = (session: UserSession): (string | null)[] => [
  session.id,
  minute(session.created_at),
  minute(session.refreshed_at),
  session.ip,
  session.aal,
  session.user_agent,
]

export async function revokeSessions(context: Context): Promise<Answer> {
  const { session } = context.given.values
  if (session !== undefined && !isId(session))
    throw new Failure(
      'usage_invalid_value',
      `--session cannot be "${session}": it must be the id of a session.`,
      'plinth auth sessions list shows the ids.',
    )
  const { platform, params, user } = await namedUser(context)
  if (session === undefined) await platform.users.revokeSessions({ params })
  else await platform.users.revokeSession({ params: { ...params, token: session } })
  return {
    data: { user_id: user.id, session: session ?? null, revoked: true },
    text: () =>
      session === undefined
        ? `Ended all sessions of ${nameOf(user)}.`
        : `Ended the session ${session} of ${nameOf(user)}.`,
  }
}

const nameOf = ({ email, id }: User) => clean(email ?? id)

/** The user of the argument or of --user, by id or e-mail address. */
async function namedUser(context: Context) {
  const named = context.given.operands['user'] ?? context.given.values['user']!
  const { platform, id } = await openProject(context)
  const user = isId(named)
    ? await platform.users.read({ params: { id, user_id: named } })
    : await userOfAddress(named, platform, id)
  return { platform, user, params: { id, user_id: user.id } }
}

async function userOfAddress(named: string, platform: Platform, id: string): Promise<User> {
  const email = named.toLowerCase()
  const found = await everyPage(async query => {
    const page = await platform.users.list({ params: { id }, query: { ...query, search: email } })
    return { items: page.users, total: page.total }
  })
  const user = found.find(each => each.email === email)
  if (user) return user
  throw new Failure(
    'user_not_found',
    `No user of this project has the address "${named}".`,
    found.length > 0
      ? `Did you mean ${found[0]!.email}?`
      : 'plinth auth users list --search finds users by a part of their address.',
  )
}
