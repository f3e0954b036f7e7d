// GET /verify: a browser opens a link from a mail. The answer redirects to the application, also after an error.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { emptyReply, isPrefetch, redirect } from '../browser.ts'
import { clientInfo } from '../client-info.ts'
import type { AuthService } from '../service.ts'
import { settingsOf } from '../settings.ts'
import { isPkceToken } from './one-time-code.ts'
import { errorParameters, redirectFrom, withFragment, withQuery } from './redirect.ts'

export async function followLink(
  verify: AuthService['verify'],
  tenant: Tenant,
  request: RawRequest,
): Promise<RawReply> {
  if (isPrefetch(request)) return emptyReply
  const query = new URLSearchParams(request.search)
  const token = query.get('token') ?? query.get('token_hash') ?? ''
  const type = query.get('type') ?? ''
  const target = redirectFrom(
    settingsOf(tenant),
    query.get('redirect_to') ?? undefined,
    request.headers.referer,
  )
  try {
    if (!token) throw new Refusal('validation_failed', 'Verify requires a token or a token hash')
    const verified = await verify.fromLink(tenant, token, type, clientInfo(request))
    if ('authCode' in verified) return redirect(303, withQuery(target, { code: verified.authCode }))
    if ('message' in verified)
      return redirect(303, withFragment(target, { message: verified.message, sb: '' }))
    const { access_token, expires_at, expires_in, refresh_token, token_type } = verified.session
    return redirect(
      303,
      withFragment(target, { access_token, expires_at, expires_in, refresh_token, sb: '', token_type, type }),
    )
  } catch (error) {
    if (!(error instanceof Refusal) || error.status === 429) throw error
    const parameters = errorParameters(error)
    const url = isPkceToken(token) ? withQuery(target, parameters) : target
    return redirect(303, withFragment(url, { ...parameters, sb: '' }))
  }
}
