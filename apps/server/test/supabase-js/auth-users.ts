// Signed-in users, and following links as a browser does.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { Session, User } from '@supabase/supabase-js'
import type { AuthProject } from './auth-setup.ts'
import type { Auth, ClientOptions } from './auth-shapes.ts'

/** A unique address. */
export const newAddress = (name = 'ada') => `${name}-${randomBytes(5).toString('hex')}@example.com`

export const password = 'correct horse battery'

export interface SignedInUser {
  auth: Auth
  email: string
  password: string
  session: Session
  user: User
}

/** A signed-in user, by sign-up with auto_confirm, else created by the admin API. */
export async function newUser(project: AuthProject, options: ClientOptions = {}): Promise<SignedInUser> {
  const email = newAddress()
  if (!project.isAutoConfirmed) {
    const { error } = await project.admin.createUser({ email, password, email_confirm: true })
    assert.equal(error, null)
    return signIn(project, email, options)
  }
  const auth = project.connect(options)
  const { data, error } = await auth.signUp({ email, password })
  assert.equal(error, null)
  return { auth, email, password, session: data.session!, user: data.user! }
}

/** Signs in the same user in another client. */
export async function signIn(
  project: AuthProject,
  email: string,
  options: ClientOptions & { password?: string } = {},
): Promise<SignedInUser> {
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

export interface Redirect {
  status: number
  /** The redirect URL without query and fragment. */
  place: string
  query: Record<string, string>
  fragment: Record<string, string>
}

/** Follows one redirect of a link. */
export async function follow(link: string): Promise<Redirect> {
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

/** Sets the session from the fragment, as the client does in a browser. */
export async function applyFragment(
  auth: Auth,
  { fragment }: Redirect,
): Promise<{ session: Session; user: User }> {
  const { access_token = '', refresh_token = '' } = fragment
  const { data, error } = await auth.setSession({ access_token, refresh_token })
  assert.equal(error, null)
  return { session: data.session!, user: data.user! }
}
