// Auth routes of a project: the native ones and those that supabase-js calls. Both URL shapes reach every route. Bodies may
// contain undeclared fields, because clients of other versions send them.
import type { TProperties } from 'typebox'
import type { Method, Role, Routes } from './route.ts'
import { Id, Nullable } from './shapes.ts'
import { Type } from './type.ts'

const Text = Type.Optional(Nullable(Type.String({ maxLength: 4096 })))
const Flag = Type.Optional(Nullable(Type.Boolean()))
const Json = Type.Optional(Nullable(Type.Record(Type.String(), Type.Unknown())))
const body = <P extends TProperties>(fields: P) => Type.Object(fields)
const challenge = { code_challenge: Text, code_challenge_method: Text, redirect_to: Text }

const RedirectTo = Type.Object({ redirect_to: Type.Optional(Type.String({ maxLength: 4096 })) })
const Raw = Type.Unknown({ description: 'JSON text from Postgres, or a redirect.' })
const User = Type.Unknown({ description: 'A user object.' })
const Session = Type.Unknown({
  description: 'A session object: access_token, refresh_token, expires_in, user.',
})
const Nothing = Type.Object({})

const everyone = ['anon', 'authenticated', 'service_role'] as const
const signedIn = ['authenticated'] as const
const admin = ['service_role'] as const
const mebibyte = 1024 * 1024

/** The common part of similar routes. */
const route = <const M extends Method, const A extends readonly Role[] | 'open'>(
  method: M,
  allow: A,
  path: string,
) =>
  ({
    plane: 'data',
    method,
    allow,
    path: `/auth/{project}/${path}`,
    params: Type.Object({ project: Id }),
    bodyLimit: mebibyte,
  }) as const

const SignUp = body({ email: Text, phone: Text, password: Text, data: Json, ...challenge })
const Password = body({ email: Text, password: Text })
const Token = body({
  email: Text,
  phone: Text,
  password: Text,
  refresh_token: Text,
  auth_code: Text,
  code_verifier: Text,
  provider: Text,
  id_token: Type.Optional(Nullable(Type.String({ maxLength: 32_768 }))),
  access_token: Type.Optional(Nullable(Type.String({ maxLength: 32_768 }))),
  nonce: Text,
  link_identity: Flag,
})
const Otp = body({ email: Text, phone: Text, create_user: Flag, data: Json, ...challenge })
const Verify = body({
  type: Text,
  email: Text,
  phone: Text,
  token: Text,
  token_hash: Text,
  redirect_to: Text,
})
const Recover = body({ email: Text, ...challenge })
const Resend = body({ email: Text, phone: Text, type: Text, ...challenge })
const Update = body({
  email: Text,
  phone: Text,
  password: Text,
  current_password: Text,
  nonce: Text,
  data: Json,
  app_metadata: Type.Optional(Type.Unknown()),
  ...challenge,
})
const AdminUser = body({
  id: Type.Optional(Nullable(Id)),
  email: Text,
  phone: Text,
  password: Text,
  password_hash: Text,
  email_confirm: Flag,
  phone_confirm: Flag,
  user_metadata: Json,
  app_metadata: Json,
  role: Text,
  aud: Text,
  ban_duration: Text,
})
const Invite = body({ email: Text, data: Json, redirect_to: Text })
const GenerateLink = body({
  type: Text,
  email: Text,
  new_email: Text,
  password: Text,
  data: Json,
  redirect_to: Text,
})
const Enroll = body({ friendly_name: Text, factor_type: Text, issuer: Text, phone: Text })
const FactorCode = body({ challenge_id: Text, code: Text })
const LogoutScope = Type.Object({ scope: Type.Optional(Type.String()) })
const GrantType = Type.Object({ grant_type: Type.Optional(Type.String()) })
const UserQuery = Type.Object({
  page: Type.Optional(Type.String()),
  per_page: Type.Optional(Type.String()),
  filter: Type.Optional(Type.String({ maxLength: 255 })),
  sort: Type.Optional(Type.String()),
})
const ofUser = Type.Object({ project: Id, user_id: Id })
const ofFactor = Type.Object({ project: Id, factor_id: Id })

export const authApi = {
  signUp: {
    ...route('POST', everyone, 'sign-up'),
    needsSpace: 'disk',
    summary: 'Sign up with e-mail and password',
    query: RedirectTo,
    body: SignUp,
    reply: Session,
  },
  signIn: {
    ...route('POST', everyone, 'sign-in'),
    summary: 'Sign in with e-mail and password',
    body: Password,
    reply: Session,
  },
  signOut: {
    ...route('POST', signedIn, 'sign-out'),
    summary: 'End all sessions of the user, or only those selected by `scope`',
    query: LogoutScope,
    status: 204,
    reply: Nothing,
  },
  session: {
    ...route('GET', signedIn, 'session'),
    summary: 'Read the session and the user of the token',
    reply: Type.Object({ session: Type.Unknown(), user: User }),
  },
  magicLink: {
    ...route('POST', everyone, 'magic-link'),
    summary: 'Send a sign-in link by mail',
    query: RedirectTo,
    body: Otp,
    reply: Nothing,
  },
  oauth: {
    ...route('GET', 'open', 'oauth/{provider}'),
    summary: 'Sign in with a provider: redirects the browser to it',
    params: Type.Object({ project: Id, provider: Type.String() }),
    raw: true,
    reply: Raw,
  },

  signup: {
    ...route('POST', everyone, 'signup'),
    needsSpace: 'disk',
    summary: 'Sign up with e-mail and password, or anonymously',
    query: RedirectTo,
    body: SignUp,
    reply: Session,
  },
  token: {
    ...route('POST', everyone, 'token'),
    summary: 'Exchange a password, refresh token, flow code or id token for a session',
    query: GrantType,
    body: Token,
    reply: Session,
  },
  otp: {
    ...route('POST', everyone, 'otp'),
    summary: 'Send a one-time code and link',
    query: RedirectTo,
    body: Otp,
    reply: Nothing,
  },
  magiclink: {
    ...route('POST', everyone, 'magiclink'),
    summary: 'Send a one-time code and link; older name of `otp`',
    query: RedirectTo,
    body: Otp,
    reply: Nothing,
  },
  verify: {
    ...route('POST', everyone, 'verify'),
    summary: 'Exchange a code or link token from a mail for a session',
    query: RedirectTo,
    body: Verify,
    reply: Session,
  },
  followLink: {
    ...route('GET', 'open', 'verify'),
    summary: 'Target of the links in mails: redirects to the application',
    raw: true,
    reply: Raw,
  },
  recover: {
    ...route('POST', everyone, 'recover'),
    summary: 'Send a link to set a new password',
    query: RedirectTo,
    body: Recover,
    reply: Nothing,
  },
  resend: {
    ...route('POST', everyone, 'resend'),
    summary: 'Send a confirmation mail again',
    query: RedirectTo,
    body: Resend,
    reply: Nothing,
  },
  reauthenticate: {
    ...route('GET', signedIn, 'reauthenticate'),
    summary: 'Send a code that confirms a sensitive change',
    reply: Nothing,
  },
  readUser: {
    ...route('GET', signedIn, 'user'),
    summary: 'Read the signed-in user',
    raw: true,
    reply: User,
  },
  updateUser: {
    ...route('PUT', signedIn, 'user'),
    summary: 'Change metadata, password or e-mail address of the signed-in user',
    query: RedirectTo,
    body: Update,
    reply: User,
  },
  logout: {
    ...route('POST', signedIn, 'logout'),
    summary: 'End all sessions of the user, or only those selected by `scope`',
    query: LogoutScope,
    status: 204,
    reply: Nothing,
  },

  authorize: {
    ...route('GET', 'open', 'authorize'),
    summary: 'Sign in with a provider: redirects the browser to it',
    raw: true,
    reply: Raw,
  },
  callback: {
    ...route('GET', 'open', 'callback'),
    summary: 'Callback to which a provider redirects the browser',
    raw: true,
    reply: Raw,
  },
  callbackByForm: {
    ...route('POST', 'open', 'callback'),
    summary: 'Callback for providers that post a form',
    raw: true,
    reply: Raw,
  },
  linkIdentity: {
    ...route('GET', signedIn, 'user/identities/authorize'),
    summary: 'Link an identity: returns or redirects to the URL of the provider',
    raw: true,
    reply: Raw,
  },
  unlinkIdentity: {
    ...route('DELETE', signedIn, 'user/identities/{identity_id}'),
    summary: 'Remove an identity',
    params: Type.Object({ project: Id, identity_id: Id }),
    reply: Nothing,
  },

  enrollFactor: {
    ...route('POST', signedIn, 'factors'),
    summary: 'Enroll a second factor',
    body: Enroll,
    reply: Type.Unknown(),
  },
  challengeFactor: {
    ...route('POST', signedIn, 'factors/{factor_id}/challenge'),
    summary: 'Request a challenge for a second factor',
    params: ofFactor,
    reply: Type.Unknown(),
  },
  verifyFactor: {
    ...route('POST', signedIn, 'factors/{factor_id}/verify'),
    summary: 'Answer a challenge; the session becomes aal2',
    params: ofFactor,
    body: FactorCode,
    reply: Session,
  },
  unenrollFactor: {
    ...route('DELETE', signedIn, 'factors/{factor_id}'),
    summary: 'Remove a second factor',
    params: ofFactor,
    reply: Type.Object({ id: Id }),
  },

  keys: {
    ...route('GET', 'open', '.well-known/jwks.json'),
    summary: 'Public keys of access tokens, as a JWKS; none if the project signs with HS256',
    raw: true,
    reply: Type.Object({ keys: Type.Array(Type.Unknown()) }),
  },
  settings: {
    ...route('GET', everyone, 'settings'),
    summary: 'Read which sign-in methods the project offers',
    reply: Type.Unknown(),
  },
  health: {
    ...route('GET', 'open', 'health'),
    summary: 'Whether this service answers',
    reply: Type.Object({ name: Type.String(), version: Type.String(), description: Type.String() }),
  },

  invite: {
    ...route('POST', admin, 'invite'),
    needsSpace: 'disk',
    summary: 'Invite a user by mail',
    query: RedirectTo,
    body: Invite,
    reply: User,
  },
  listUsers: {
    ...route('GET', admin, 'admin/users'),
    summary: 'List users, newest first',
    query: UserQuery,
    raw: true,
    reply: Type.Object({ users: Type.Array(User), aud: Type.String() }),
  },
  createUser: {
    ...route('POST', admin, 'admin/users'),
    needsSpace: 'disk',
    summary: 'Create a user; no mail is sent',
    body: AdminUser,
    reply: User,
  },
  readUserById: {
    ...route('GET', admin, 'admin/users/{user_id}'),
    summary: 'Read one user',
    params: ofUser,
    reply: User,
  },
  updateUserById: {
    ...route('PUT', admin, 'admin/users/{user_id}'),
    summary: 'Change a user',
    params: ofUser,
    body: AdminUser,
    reply: User,
  },
  deleteUser: {
    ...route('DELETE', admin, 'admin/users/{user_id}'),
    summary: 'Delete a user permanently, or mark it as deleted',
    params: ofUser,
    raw: true,
    reply: Nothing,
  },
  generateLink: {
    ...route('POST', admin, 'admin/generate_link'),
    needsSpace: 'disk',
    summary: 'Create the link of a mail without sending the mail',
    query: RedirectTo,
    body: GenerateLink,
    reply: User,
  },
  listFactors: {
    ...route('GET', admin, 'admin/users/{user_id}/factors'),
    summary: 'List the second factors of a user',
    params: ofUser,
    reply: Type.Array(Type.Unknown()),
  },
  deleteFactor: {
    ...route('DELETE', admin, 'admin/users/{user_id}/factors/{factor_id}'),
    summary: 'Remove a second factor of a user',
    params: Type.Object({ project: Id, user_id: Id, factor_id: Id }),
    reply: Type.Unknown(),
  },
} as const satisfies Routes
