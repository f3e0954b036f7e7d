// Somebody to be: accounts that are signed in, and what a browser does with a link.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { Session, User } from '@supabase/supabase-js'
import type { Auth, ClientOptions } from './auth-shapes.ts'
import type { AuthProject } from './auth-stage.ts'

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

/** Somebody who is signed in: at their word where that is enough, otherwise with an address that an administrator vouches for. */
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
