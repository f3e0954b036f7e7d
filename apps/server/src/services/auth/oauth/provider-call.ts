// Calls to a provider, and what of their answers can be used: JSON objects with a good status, and nothing else.
import { OutboundError } from '#src/kernel/outbound/connect.ts'
import type { Outbound, OutboundAnswer, OutboundRequest } from '#src/kernel/outbound/fetch.ts'
import { badCallback } from './identity.ts'

export type Json = Readonly<Record<string, unknown>>

/** Nobody waits longer for a provider: a browser hangs on it. */
const timeoutMs = 10_000
const maxBytes = 256 * 1024
/** Values, fields and keys of an answer. An ordinary one has a few hundred; parsing this many takes a few ms. */
const maxValues = 10_000

/** The body is small enough to be parsed at once. */
export async function askProvider(outbound: Outbound, request: OutboundRequest): Promise<OutboundAnswer> {
  const answer = await ask(outbound, request)
  if (separatorsIn(answer.body) > maxValues) throw badCallback('The provider answered with too much')
  return answer
}

async function ask(outbound: Outbound, request: OutboundRequest): Promise<OutboundAnswer> {
  try {
    return await outbound.fetch({
      timeoutMs,
      maxBytes,
      ...request,
      headers: { accept: 'application/json', ...request.headers },
    })
  } catch (error) {
    // The reason is for the operator's log: a tenant could scan ports with it.
    if (error instanceof OutboundError) throw badCallback('The provider could not be reached', error)
    throw error
  }
}

const separators = new Set(Buffer.from(',[{&'))

/** At least as many as the body has values, as JSON or as a form; those within texts count, too. */
function separatorsIn(body: Buffer): number {
  let count = 0
  for (const byte of body) if (separators.has(byte)) count++
  return count
}

export async function askForJson(outbound: Outbound, request: OutboundRequest): Promise<unknown> {
  const { status, body } = await askProvider(outbound, request)
  if (status < 200 || status > 299)
    throw badCallback(
      `The provider refused to answer`,
      new Error(`${new URL(request.url).pathname}: ${status}`),
    )
  return parsed(body.toString('utf8'))
}

export async function askForObject(outbound: Outbound, request: OutboundRequest): Promise<Json> {
  const value = await askForJson(outbound, request)
  if (!isObject(value) || 'error' in value) throw badCallback('The provider answered with an error')
  return value
}

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // What the parser says quotes the text, and that may be a token.
    throw badCallback('The provider answered with something else than JSON')
  }
}

/** Tokens come as JSON, or, from older servers, as a form. */
export async function askForTokens(outbound: Outbound, request: OutboundRequest): Promise<Json> {
  const { status, headers, body } = await askProvider(outbound, request)
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
