// Posts a delivery to a server on this machine, with exactly the headers and the body of the delivery.
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { Streamed } from '@plinth/contract/webhooks.ts'
import { Failure } from '../failure.ts'

const timeoutMs = 30_000
/** The rest of a longer answer is not read. */
const maxAnswerBytes = 65_536

export interface Forwarded {
  /** Null without an answer. */
  status: number | null
  error: string | null
  milliseconds: number
}

/** Redirects are not followed, as on the platform. */
export async function forward(url: URL, delivery: Streamed, signal: AbortSignal): Promise<Forwarded> {
  const startedAt = performance.now()
  const timeout = AbortSignal.timeout(timeoutMs)
  const done = (status: number | null, error: string | null): Forwarded => ({
    status,
    error,
    milliseconds: Math.round(performance.now() - startedAt),
  })
  try {
    const answer = await post(url, delivery, AbortSignal.any([signal, timeout]))
    await drain(answer)
    return done(answer.statusCode ?? null, null)
  } catch (error) {
    if (timeout.aborted) return done(null, `no answer within ${timeoutMs / 1000} seconds`)
    return done(null, reasonOf(error as NodeJS.ErrnoException))
  }
}

function post(url: URL, { headers, body }: Streamed, signal: AbortSignal): Promise<IncomingMessage> {
  const request = url.protocol === 'https:' ? requestHttps : requestHttp
  const bytes = Buffer.from(body)
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      method: 'POST',
      headers: { ...headers, 'content-length': bytes.length },
      agent: false,
      signal,
    })
    sent.on('response', resolve)
    sent.on('error', reject)
    sent.end(bytes)
  })
}

/** Some servers report an error if the connection is closed before they have sent everything. */
async function drain(answer: IncomingMessage): Promise<void> {
  let bytes = 0
  for await (const chunk of answer) {
    bytes += (chunk as Buffer).length
    if (bytes > maxAnswerBytes) return
  }
}

/** `localhost` may have several addresses; then the error has no message of its own. */
function reasonOf({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'ECONNREFUSED') return 'nothing listens there'
  if (code === 'ENOTFOUND') return 'the host name is not known'
  if (code === 'ECONNRESET') return 'the connection was cut'
  return message || (code ?? 'the request failed')
}

/** `localhost:3000/hooks` is a URL, too. */
export function forwardUrl(text: string): URL {
  const url = URL.parse(/^[a-z][a-z\d+.-]*:\/\//i.test(text) ? text : `http://${text}`)
  if (url && /^https?:$/.test(url.protocol) && !text.startsWith('/')) return url
  throw new Failure(
    'usage_invalid_value',
    `--forward-to cannot be "${text}".`,
    'Use a URL such as http://localhost:3000/hooks.',
  )
}
