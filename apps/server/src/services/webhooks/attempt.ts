// One attempt to deliver: sign, post, and describe the result for its record.
import type { Attempt } from '@plinth/contract/webhooks.ts'
import type { Log } from '#src/kernel/log.ts'
import type { KeepAlive } from '#src/kernel/outbound/keep-alive.ts'
import { PostError } from '#src/kernel/outbound/post-error.ts'
import type { Sign } from './signature.ts'

export interface AttemptDeps {
  client: Pick<KeepAlive, 'post'>
  timeoutMs: number
  log: Log
}

export interface Attempted {
  kind: 'delivered' | 'failed' | 'timed_out' | 'cancelled'
  attempt: Attempt
}

export async function attemptDelivery(
  { client, timeoutMs, log }: AttemptDeps,
  { url, sign }: { url: string; sign: Sign },
  { id, payload }: { id: string; payload: string },
  signal?: AbortSignal,
): Promise<Attempted> {
  const headers = sign(id, payload)
  const startedAt = Date.now()
  const since = performance.now()
  const attempt = (statusCode: number | null, body: string, error: string | null): Attempt => ({
    id: headers['x-webhook-id']!,
    at: new Date(startedAt).toISOString(),
    status_code: statusCode,
    latency_ms: Math.round(performance.now() - since),
    // Postgres stores no NUL characters.
    response_body: body === '' ? null : body.replaceAll('\0', '\ufffd'),
    error,
  })
  try {
    const { status, body } = await client.post({
      url,
      headers,
      body: payload,
      timeoutMs,
      ...(signal && { signal }),
    })
    const isDelivered = status >= 200 && status < 300
    return {
      kind: isDelivered ? 'delivered' : 'failed',
      attempt: attempt(status, body, isDelivered ? null : `The server answered with status ${status}.`),
    }
  } catch (error) {
    if (!(error instanceof PostError)) {
      log.error({ err: error, delivery: id }, 'unexpected error in a delivery')
      return { kind: 'failed', attempt: attempt(null, '', 'The request could not be sent.') }
    }
    const { reason, message } = error
    const kind = reason === 'cancelled' ? 'cancelled' : reason === 'timeout' ? 'timed_out' : 'failed'
    return { kind, attempt: attempt(null, '', message) }
  }
}
