// Broadcasts that come by plain HTTP. Payloads are passed on as the text they are.
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import type { JsonLimits, Span } from '#src/kernel/http/json-tree.ts'
import { jsonInSlices } from '#src/kernel/http/large-json.ts'
import { jsonReply, type RawReply, type RawRequest } from '#src/kernel/http/request.ts'
import { atOnce, inSlices } from '#src/kernel/slices.ts'
import { dataRefusal } from '#src/planes/data/plane.ts'
import type { Broadcast } from './broadcast.ts'
import { maxEventBytes, maxPayloadBytes, maxPosted, maxTopicBytes } from './limits.ts'
import { topicPrefix } from './space.ts'
import { isObject, maxBytesAtOnce, maxFrameValues } from './wire.ts'

export interface Posted {
  readonly topic: string
  readonly isPrivate: boolean
  readonly broadcast: Broadcast
}

/** By field, as in a form that was filled in wrongly. */
type Faults = Record<string, string[]>

export class PostingFault extends Error {
  readonly errors: object
  constructor(errors: object) {
    super('The messages cannot be sent as they are')
    this.errors = errors
  }
}

const maxBodyBytes = 12 * 1024 * 1024
const missing = "can't be blank"
const nowhere: Span = { start: 0, end: 0 }

/** The body as far as it is read here: payloads are validated and passed on as they came. */
function outlineOf(bytes: Buffer, limits: Partial<JsonLimits>): unknown | Promise<unknown> {
  const work = jsonInSlices(bytes, { maxValues: maxFrameValues, anyKey: true, ...limits })
  return bytes.length <= maxBytesAtOnce ? atOnce(work) : inSlices(work)
}

/** `{messages: [{topic, event, payload, private?}]}` */
export async function postedMessages(request: RawRequest): Promise<Posted[]> {
  if (!isJson(request)) throw notJson()
  const bytes = await readBody(request, maxBodyBytes)
  const found = new Map<unknown, Span>()
  const body = await outlineOf(bytes, { emptyAtDepth: 4, locate: { name: 'payload', found } })
  const messages = isObject(body) ? body['messages'] : undefined
  if (!Array.isArray(messages)) throw new PostingFault({ messages: [missing] })
  if (messages.length > maxPosted)
    throw new PostingFault({ messages: [`should have at most ${maxPosted} item(s)`] })
  const faults = messages.map(faultsOf)
  const posted = messages.map((message, at) => {
    const { start, end } = found.get(message) ?? nowhere
    const payload = bytes.subarray(start, end)
    if (payload.length > maxPayloadBytes) faults[at]!['payload'] = [tooLong(maxPayloadBytes)]
    const { topic, event, private: isPrivate } = isObject(message) ? message : {}
    return {
      topic: topic as string,
      isPrivate: isPrivate === true || isPrivate === 'true',
      broadcast: { event: event as string, isJson: true, payload, meta: '' },
    }
  })
  if (faults.some(each => Object.keys(each).length > 0)) throw new PostingFault({ messages: faults })
  return posted
}

/** The body is the payload. */
export async function postedPayload(
  request: RawRequest,
  topic: string,
  event: string,
  isPrivate: boolean,
): Promise<Posted> {
  const isBytes = /^application\/octet-stream\s*(?:;|$)/i.test(request.headers['content-type'] ?? '')
  if (!isBytes && !isJson(request)) throw notJson()
  const payload = await readBody(request, maxBodyBytes)
  if (!isBytes) await outlineOf(payload, { emptyAtDepth: 1 })
  const faults = faultsOf({ topic, event, payload: payload.length === 0 && !isBytes ? undefined : {} })
  if (payload.length > maxPayloadBytes) faults['payload'] = [tooLong(maxPayloadBytes)]
  if (Object.keys(faults).length > 0) throw new PostingFault(faults)
  return { topic, isPrivate, broadcast: { event, isJson: !isBytes, payload, meta: '' } }
}

function faultsOf(message: unknown): Faults {
  const { topic, event, payload } = isObject(message) ? message : {}
  const faults: Faults = {}
  const name = (field: string, value: unknown, most: number) => {
    if (typeof value !== 'string' || value === '') faults[field] = [missing]
    else if (Buffer.byteLength(value) > most) faults[field] = [tooLong(most)]
  }
  name('topic', topic, maxTopicBytes - topicPrefix.length)
  name('event', event, maxEventBytes)
  if (payload === undefined || payload === null) faults['payload'] = [missing]
  return faults
}

const tooLong = (most: number) => `should be at most ${most} byte(s)`
const isJson = ({ headers }: RawRequest) =>
  /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(headers['content-type'] ?? '')
const notJson = () =>
  new Refusal('unsupported_media_type', 'Send application/json, or application/octet-stream for bytes')

/** The common fields of a refusal, and what is wrong with each message. */
export function faultReply({ message, errors }: PostingFault): RawReply {
  const { status, code } = new Refusal('invalid_broadcast', message)
  return jsonReply(status, {
    ...dataRefusal({ status, code, message, hint: '', details: '', headers: {} }),
    errors,
  })
}
