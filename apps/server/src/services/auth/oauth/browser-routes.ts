// OAuth routes that browsers navigate to. They answer with redirects. A prefetch (HEAD, Sec-Purpose) must not consume the
// state, which works once.
import { readBody } from '#src/kernel/http/body.ts'
import { jsonReply, type RawReply, type RawRequest } from '#src/kernel/http/request.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { emptyReply, isPrefetch, noStore, redirect } from '../browser.ts'
import { clientInfo } from '../client-info.ts'
import { notOffered } from '../not-offered.ts'
import type { OauthService } from './service.ts'

const formBytes = 64 * 1024

export function oauthBrowserRoutes(oauth: OauthService) {
  /** `skip_http_redirect` is for clients that open the provider's page themselves. */
  const toProvider = (url: string, query: URLSearchParams): RawReply =>
    query.get('skip_http_redirect') === 'true' ? jsonReply(200, { url }, noStore) : redirect(302, url)

  const finishCallback = async (given: URLSearchParams, { tenant }: Caller, request: RawRequest) =>
    redirect(302, await oauth.callback(tenant, given, clientInfo(request)))

  return {
    async authorize({ tenant }: Caller, request: RawRequest): Promise<RawReply> {
      const query = new URLSearchParams(request.search)
      return toProvider(await oauth.authorize(tenant, query, request.headers.referer), query)
    },

    /** `/oauth/<provider>`, Plinth's own route for authorize. Routes of GoTrue's OAuth server have the same form. */
    async signInWith(provider: string, { tenant }: Caller, request: RawRequest): Promise<RawReply> {
      const refusal = notOffered(`oauth/${provider}`)
      if (refusal) throw refusal
      const query = new URLSearchParams(request.search)
      query.set('provider', provider)
      return toProvider(await oauth.authorize(tenant, query, request.headers.referer), query)
    },

    async linkAuthorize(caller: Caller, request: RawRequest): Promise<RawReply> {
      const query = new URLSearchParams(request.search)
      return toProvider(await oauth.linkAuthorize(caller, query, request.headers.referer), query)
    },

    async callbackByGet(caller: Caller, request: RawRequest): Promise<RawReply> {
      if (isPrefetch(request)) return emptyReply
      return finishCallback(new URLSearchParams(request.search), caller, request)
    },

    /** Apple posts a form. Parameters in the query are used, too. */
    async callbackByPost(caller: Caller, request: RawRequest): Promise<RawReply> {
      const form = (await readBody(request, formBytes)).toString('utf8')
      return finishCallback(
        new URLSearchParams([...new URLSearchParams(request.search), ...new URLSearchParams(form)]),
        caller,
        request,
      )
    },
  }
}
