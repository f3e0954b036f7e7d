import { functionsApi } from '@plinth/contract/functions.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import { cors } from '#src/planes/data/cors.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { CallFunction } from './call.ts'
import type { Identify } from './callers.ts'

export function functionsRoutes(
  call: CallFunction,
  identify: Identify,
): Handlers<typeof functionsApi, Caller> {
  const handle = async (
    { params }: { params: { name: string } },
    admitted: Caller,
    request: RawRequest,
  ): Promise<RawReply> => {
    const isPreflight =
      request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined
    if (isPreflight) return preflight(() => call(params.name, admitted, request), request)
    return call(params.name, await identify(admitted, request.headers), request)
  }
  return Object.fromEntries(Object.keys(functionsApi).map(name => [name, handle])) as unknown as Handlers<
    typeof functionsApi,
    Caller
  >
}

/** A function answers preflights itself, or they are answered for it, so that a browser can send the call and see its error. */
async function preflight(ask: () => Promise<RawReply>, request: RawRequest): Promise<RawReply> {
  const answer = await ask().catch(() => undefined)
  const allows = answer?.headers?.['access-control-allow-origin'] !== undefined
  if (answer && answer.status < 300 && allows) return answer
  if (answer?.body && typeof answer.body === 'object' && 'close' in answer.body) await answer.body.close()
  const headers = cors.preflight(request.headers['access-control-request-headers'])
  return { status: 204, headers: { ...cors.headers, ...headers }, body: null }
}
