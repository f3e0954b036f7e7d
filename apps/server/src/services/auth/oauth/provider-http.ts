// HTTP calls to a provider. Only JSON answers with a 2xx status are accepted.
import { OutboundError } from '#src/kernel/outbound/connect.ts'
import type { Outbound, OutboundAnswer, OutboundRequest } from '#src/kernel/outbound/fetch.ts'
import { badCallback } from './identity.ts'

export type Json = Readonly<Record<string, unknown>>

/** A browser waits for the answer. */
const timeoutMs = 10_000
const maxBytes = 256 * 1024
/** Limit of values in an answer. A usual answer has a few hundred; parsing this many takes a few milliseconds. */
const maxValues = 10_000

/** Checks that the body is small enough to parse without blocking the event loop. */
export async function callProvider(outbound: Outbound, request: OutboundRequest): Promise<OutboundAnswer> {
  const answer = await send(outbound, request)
  if (separatorsIn(answer.body) > maxValues) throw badCallback('The provider answered with too much')
  return answer
}

async function send(outbound: Outbound, request: OutboundRequest): Promise<OutboundAnswer> {
  try {
    return await outbound.fetch({
      timeoutMs,
      maxBytes,
      ...request,
      headers: { accept: 'application/json', ...request.headers },
    })
  } catch (error) {
    // The reason is only logged, because it would let a tenant scan ports of the internal network.
    if (error instanceof OutboundError) throw badCallback('The provider could not be reached', error)
    throw error
  }
}

const separators = new Set(Buffer.from(',[{&'))

/** An upper bound of the values in a JSON or form body. */
function separatorsIn(body: Buffer): number {
  let count = 0
  for (const byte of body) if (separators.has(byte)) count++
  return count
}

export async function fetchJson(outbound: Outbound, request: OutboundRequest): Promise<unknown> {
  const { status, body } = await callProvider(outbound, request)
  if (status < 200 || status > 299)
    throw badCallback(
      `The provider refused to answer`,
      new Error(`${new URL(request.url).pathname}: ${status}`),
    )
  return parsed(body.toString('utf8'))
}

export async function fetchObject(outbound: Outbound, request: OutboundRequest): Promise<Json> {
  const value = await fetchJson(outbound, request)
  if (!isObject(value) || 'error' in value) throw badCallback('The provider answered with an error')
  return value
}

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // The parser's message quotes the text, which may be a token.
    throw badCallback('The provider answered with something else than JSON')
  }
}

/** Older servers send tokens as a form instead of JSON. */
export async function fetchTokens(outbound: Outbound, request: OutboundRequest): Promise<Json> {
  const { status, headers, body } = await callProvider(outbound, request)
  const text = body.toString('utf8')
  const isForm = headers['content-type']?.startsWith('application/x-www-form-urlencoded')
  const answer = isForm
    ? Object.fromEntries(new URLSearchParams(text))
    : status < 500
      ? parsed(text)
      : undefined
  if (status < 200 || status > 299 || !isObject(answer) || 'error' in answer)
    throw badCallback(
      'The provider refused the code',
      new Error(
        `status ${status}, error ${isObject(answer) ? String(answer['error']).slice(0, 100) : 'unknown'}`,
      ),
    )
  return answer
}
