// POST /admin/generate_link: returns the links of the auth mails, so that the project's own server can send them.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { emailExists, findOrCreateInvited, userNotFound } from '../admin.ts'
import { expectRow } from '../expected-row.ts'
import type { FlowDeps } from '../flow-deps.ts'
import { checkNewPassword } from '../password-rules.ts'
import { settingsOf } from '../settings.ts'
import { createOrFindUserForAdmin } from '../sign-up.ts'
import {
  findUserByEmail,
  readUserObject,
  resetUnprovenUser,
  type UserRow,
  writePassword,
} from '../users-store.ts'
import { addressFrom } from './address.ts'
import { beginEmailChange } from './email-change-store.ts'
import { createMails, type Link } from './mails.ts'

export interface LinkRequest {
  type?: string | null | undefined
  email?: string | null | undefined
  new_email?: string | null | undefined
  password?: string | null | undefined
  data?: Record<string, unknown> | null | undefined
}

/** User, recipient address and token slot for one type of link. */
type Plan = Pick<Link, 'type' | 'slot' | 'address' | 'startsOver'> & {
  userId: string
  verificationType?: string
}

export function createGenerateLink(deps: FlowDeps) {
  const { databases, passwords } = deps
  const mails = createMails(deps)

  async function plan(
    session: Session,
    body: LinkRequest,
    email: string,
    hash: string | null,
  ): Promise<Plan> {
    const user = await findUserByEmail(session, email)
    const data = body.data ?? {}
    switch (body.type) {
      case 'signup': {
        if (user?.email_confirmed_at) throw emailExists()
        if (!body.password) throw new Refusal('validation_failed', 'Signup requires a valid password')
        if (user) await replaceUnconfirmed(session, user.id, hash!, data)
        const userId = user?.id ?? (await createOrFindUserForAdmin(session, email, hash, data))
        return { type: 'signup', slot: 'confirmation', address: email, userId }
      }
      case 'invite':
        return {
          type: 'invite',
          slot: 'confirmation',
          address: email,
          userId: await findOrCreateInvited(session, email, data),
        }
      case 'magiclink':
        return user?.email_confirmed_at
          ? { type: 'magiclink', slot: 'recovery', address: email, userId: user.id, startsOver: true }
          : {
              type: 'signup',
              slot: 'confirmation',
              startsOver: true,
              address: email,
              userId: user?.id ?? (await createOrFindUserForAdmin(session, email, null, {})),
            }
      case 'recovery':
        if (!user) throw userNotFound()
        return { type: 'recovery', slot: 'recovery', address: email, userId: user.id, startsOver: true }
      case 'email_change_current':
      case 'email_change_new':
        if (!user) throw userNotFound()
        return planEmailChange(session, user, email, addressFrom(body.new_email), body.type)
      default:
        throw new Refusal('validation_failed', `Invalid email action link type: ${knownTypes}`)
    }
  }

  return async (tenant: Tenant, body: LinkRequest, redirectTo: string) => {
    const email = addressFrom(body.email)
    if (body.password) checkNewPassword(body.password, settingsOf(tenant))
    const hash =
      body.type === 'signup' && body.password ? await passwords(tenant.id).hash(body.password) : null
    return databases.auth(tenant).transaction(async session => {
      const { userId, verificationType, ...link } = await plan(session, body, email, hash)
      const { code, linkToken, url } = await mails.makeLink(session, tenant, userId, { ...link, redirectTo })
      return {
        ...expectRow(await readUserObject(session, userId)),
        action_link: url,
        email_otp: code,
        hashed_token: linkToken,
        verification_type: verificationType ?? link.type,
        redirect_to: redirectTo,
      }
    })
  }
}

/** Drops password and metadata of an unconfirmed sign-up and sets those of the admin request. */
async function replaceUnconfirmed(session: Session, id: string, hash: string, data: Record<string, unknown>) {
  await resetUnprovenUser(session, id, data)
  await writePassword(session, id, hash)
}

async function planEmailChange(
  session: Session,
  user: UserRow,
  email: string,
  newEmail: string,
  slot: 'email_change_current' | 'email_change_new',
): Promise<Plan> {
  if (user.email_change !== newEmail) {
    if (await findUserByEmail(session, newEmail)) throw emailExists()
    await beginEmailChange(session, user.id, newEmail)
  }
  const address = slot === 'email_change_new' ? newEmail : email
  return { type: 'email_change', slot, address, userId: user.id, verificationType: slot }
}

const knownTypes = 'signup, invite, magiclink, recovery, email_change_current, email_change_new'
