// Parses requests for the service. Plinth's own route and the GoTrue route of an operation share one handler.
import type { authApi } from '@plinth/contract/auth.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import { parseJsonBody } from '#src/kernel/http/json-body.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import { jsonReply, type RawRequest, type RequestHead } from '#src/kernel/http/request.ts'
import { version } from '#src/kernel/version.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { clientInfo } from './client-info.ts'
import { readCurrentUser } from './current-user.ts'
import { createGrants } from './grants.ts'
import { followLink } from './mail/follow-link.ts'
import { redirectFrom } from './mail/redirect.ts'
import { oauthBrowserRoutes } from './oauth/browser-routes.ts'
import type { AuthService } from './service.ts'
import { settingsOf } from './settings.ts'
import { pageFrom, pageHeaders } from './user-paging.ts'

/** The redirect URL for links: `redirect_to` of the request, else the referrer, else the site URL. */
const redirectUrl = (
  caller: Caller,
  query: { redirect_to?: string },
  body: { redirect_to?: string | null },
  { headers }: RequestHead,
) =>
  redirectFrom(settingsOf(caller.tenant), query.redirect_to, body.redirect_to ?? undefined, headers.referer)

export function authRoutes(auth: AuthService): Handlers<typeof authApi, Caller> {
  const browser = oauthBrowserRoutes(auth.oauth)
  const grant = createGrants(auth)

  const signUp: Handlers<typeof authApi, Caller>['signup'] = ({ body, query }, caller, request) =>
    auth.signUp(caller.tenant, body, redirectUrl(caller, query, body, request), clientInfo(request))
  const signInByMail: Handlers<typeof authApi, Caller>['otp'] = ({ body, query }, caller, request) =>
    auth.mailRequests.signIn(
      caller.tenant,
      body,
      redirectUrl(caller, query, body, request),
      clientInfo(request),
    )
  const logout: Handlers<typeof authApi, Caller>['logout'] = async ({ query }, caller) => {
    await auth.logout(caller, query.scope)
    return undefined
  }

  return {
    signUp,
    signup: signUp,
    signIn: ({ body }, { tenant }, request) => grant.password(tenant, body, clientInfo(request)),
    signOut: logout,
    logout,
    session: (_input, caller) => auth.currentSession(caller),
    magicLink: signInByMail,
    magiclink: signInByMail,
    otp: signInByMail,
    token: ({ query, body }, caller, request) =>
      grant.any(query.grant_type, caller, body, clientInfo(request)),

    async verify({ body }, { tenant }, request) {
      const verified = await auth.verify.fromBody(tenant, body, clientInfo(request))
      if ('session' in verified) return verified.session
      return { code: '200', msg: 'message' in verified ? verified.message : '' }
    },
    followLink: (_input, { tenant }, request) => followLink(auth.verify, tenant, request),
    recover: ({ body, query }, caller, request) =>
      auth.mailRequests.recover(
        caller.tenant,
        body,
        redirectUrl(caller, query, body, request),
        clientInfo(request),
      ),
    resend: ({ body, query }, caller, request) =>
      auth.mailRequests.resend(
        caller.tenant,
        body,
        redirectUrl(caller, query, body, request),
        clientInfo(request),
      ),
    reauthenticate: (_input, caller, request) => auth.user.reauthenticate(caller, clientInfo(request)),
    async readUser(_input, caller) {
      const headers = { 'content-type': 'application/json; charset=utf-8' }
      return { status: 200, headers, body: await readCurrentUser(auth.databases, caller) }
    },
    updateUser: ({ body, query }, caller, request) =>
      auth.user.update(caller, body, redirectUrl(caller, query, body, request), clientInfo(request)),

    oauth: ({ params }, caller, request) => browser.signInWith(params.provider, caller, request),
    authorize: (_input, caller, request) => browser.authorize(caller, request),
    callback: (_input, caller, request) => browser.callbackByGet(caller, request),
    callbackByForm: (_input, caller, request) => browser.callbackByPost(caller, request),
    linkIdentity: (_input, caller, request) => browser.linkAuthorize(caller, request),
    async unlinkIdentity({ params }, caller) {
      await auth.oauth.unlink(caller, params.identity_id)
      return {}
    },

    enrollFactor: ({ body }, caller) => auth.mfa.enroll(caller, body),
    challengeFactor: ({ params }, caller, request) =>
      auth.mfa.challenge(caller, params.factor_id, clientInfo(request)),
    verifyFactor: ({ params, body }, caller, request) =>
      auth.mfa.verify(caller, params.factor_id, body, clientInfo(request)),
    unenrollFactor: ({ params }, caller) => auth.mfa.unenroll(caller, params.factor_id),

    keys: async (_input, { tenant }) => jsonReply(200, { keys: await auth.publicKeys(tenant) }, cacheable),
    settings: (_input, { tenant }) => auth.publicSettings(tenant),
    health: () => ({ name: 'Plinth auth', version, description: 'Users of a project’s applications' }),

    invite: ({ body, query }, caller, request) =>
      auth.admin.invite(caller.tenant, body, redirectUrl(caller, query, body, request)),
    async listUsers({ query }, { tenant }) {
      const page = pageFrom(query)
      const { users, total } = await auth.admin.list(tenant, page.filter)
      return jsonReply(200, { users, aud: 'authenticated' }, pageHeaders(page, total))
    },
    createUser: ({ body }, { tenant }) => auth.admin.create(tenant, body),
    readUserById: ({ params }, { tenant }) => auth.admin.read(tenant, params.user_id),
    updateUserById: ({ params, body }, { tenant }) => auth.admin.update(tenant, params.user_id, body),
    async deleteUser({ params }, { tenant }, request) {
      await auth.admin.remove(tenant, params.user_id, await isSoftDeletion(request))
      return jsonReply(200, {})
    },
    generateLink: ({ body, query }, caller, request) =>
      auth.generateLink(caller.tenant, body, redirectUrl(caller, query, body, request)),
    listFactors: ({ params }, { tenant }) => auth.mfa.adminList(tenant, params.user_id),
    deleteFactor: ({ params }, { tenant }) => auth.mfa.adminDelete(tenant, params.user_id, params.factor_id),
  }
}

/** Short, because clients should see a new key soon. */
const cacheable = { 'cache-control': 'public, max-age=60' }

const deletionBytes = 64 * 1024

/** A request without a body is valid. */
async function isSoftDeletion(request: RawRequest): Promise<boolean> {
  const bytes = await readBody(request, deletionBytes)
  if (bytes.length === 0) return false
  const body = parseJsonBody(bytes) as { should_soft_delete?: unknown } | null
  const isSoft = body?.should_soft_delete ?? false
  if (typeof isSoft !== 'boolean')
    throw new Refusal('validation_failed', 'should_soft_delete must be true or false')
  return isSoft
}
