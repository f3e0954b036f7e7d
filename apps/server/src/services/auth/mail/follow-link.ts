// A link from a mail, opened in a browser: whatever comes of it, the browser is sent on to the application.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { isLookAhead, nothingDone, redirect } from '../browser.ts'
import { clientOf } from '../parts.ts'
import type { AuthService } from '../service.ts'
import { settingsOf } from '../settings.ts'
import { isPkceToken } from './one-time-code.ts'
import { errorParameters, redirectFrom, withFragment, withQuery } from './redirect.ts'

export async function followLink(
  verify: AuthService['verify'],
  tenant: Tenant,
  request: RawRequest,
): Promise<RawReply> {
  if (isLookAhead(request)) return nothingDone
  const query = new URLSearchParams(request.search)
  const token = query.get('token') ?? query.get('token_hash') ?? ''
  const type = query.get('type') ?? ''
  const place = redirectFrom(
    settingsOf(tenant),
    query.get('redirect_to') ?? undefined,
    request.headers.referer,
  )
  try {
    if (!token) throw new Refusal('validation_failed', 'Verify requires a token or a token hash')
    const verified = await verify.link(tenant, token, type, clientOf(request))
    if ('authCode' in verified) return redirect(303, withQuery(place, { code: verified.authCode }))
    if ('message' in verified)
      return redirect(303, withFragment(place, { message: verified.message, sb: '' }))
    const { access_token, expires_at, expires_in, refresh_token, token_type } = verified.session
    return redirect(
      303,
      withFragment(place, { access_token, expires_at, expires_in, refresh_token, sb: '', token_type, type }),
    )
  } catch (error) {
    if (!(error instanceof Refusal) || error.status === 429) throw error
    const parameters = errorParameters(error)
    const told = isPkceToken(token) ? withQuery(place, parameters) : place
    return redirect(303, withFragment(told, { ...parameters, sb: '' }))
  }
}
