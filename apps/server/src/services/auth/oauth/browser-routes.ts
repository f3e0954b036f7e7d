// The routes a browser follows by itself, which answer with redirects. A look ahead (HEAD, prefetch) follows nothing:
// a state counts once.
import { readBody } from '#src/kernel/http/body.ts'
import { jsonReply, type RawReply, type RawRequest } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { isLookAhead, noStore, nothingDone, redirect } from '../browser.ts'
import { clientOf } from '../parts.ts'
import type { OauthService } from './service.ts'

const formBytes = 64 * 1024

export function oauthBrowserRoutes(oauth: OauthService) {
  /** `skip_http_redirect` is for clients that open the provider's page themselves. */
  const leadTo = (url: string, query: URLSearchParams): RawReply =>
    query.get('skip_http_redirect') === 'true' ? jsonReply(200, { url }, noStore) : redirect(302, url)

  const comeBack = async (given: URLSearchParams, { tenant }: Caller, request: RawRequest) =>
    redirect(302, await oauth.callback(tenant, given, clientOf(request)))

  return {
    async authorize({ tenant }: Caller, request: RawRequest): Promise<RawReply> {
      const query = new URLSearchParams(request.search)
      return leadTo(await oauth.authorize(tenant, query, request.headers.referer), query)
    },

    /** `/oauth/<provider>`, the same under the platform's own name. */
    async signInWith(provider: string, { tenant }: Caller, request: RawRequest): Promise<RawReply> {
      const query = new URLSearchParams(request.search)
      query.set('provider', provider)
      return leadTo(await oauth.authorize(tenant, query, request.headers.referer), query)
    },

    async linkAuthorize(caller: Caller, request: RawRequest): Promise<RawReply> {
      const query = new URLSearchParams(request.search)
      return leadTo(await oauth.linkAuthorize(caller, query, request.headers.referer), query)
    },

    async callbackByGet(caller: Caller, request: RawRequest): Promise<RawReply> {
      if (isLookAhead(request)) return nothingDone
      return comeBack(new URLSearchParams(request.search), caller, request)
    },

    /** Apple answers with a form; what stands in the query counts as well. */
    async callbackByPost(caller: Caller, request: RawRequest): Promise<RawReply> {
      const form = (await readBody(request, formBytes)).toString('utf8')
      return comeBack(
        new URLSearchParams([...new URLSearchParams(request.search), ...new URLSearchParams(form)]),
        caller,
        request,
      )
    },
  }
}
