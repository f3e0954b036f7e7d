// Broadcasts sent over HTTP. Payloads are validated and passed on as the bytes that the client sent.
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import type { JsonLimits, Span } from '#src/kernel/http/json-tree.ts'
import { jsonInSlices } from '#src/kernel/http/large-json.ts'
import { jsonReply, type RawReply, type RawRequest } from '#src/kernel/http/request.ts'
import { atOnce, inSlices } from '#src/kernel/slices.ts'
import { dataRefusal } from '#src/planes/data/plane.ts'
import type { Broadcast } from './broadcast.ts'
import { maxEventBytes, maxMessagesPerRequest, maxPayloadBytes, maxTopicBytes } from './limits.ts'
import { topicPrefix } from './topic.ts'
import { isObject, maxBytesAtOnce, maxFrameValues } from './wire.ts'

export interface HttpBroadcast {
  readonly topic: string
  readonly isPrivate: boolean
  readonly broadcast: Broadcast
}

/** Error messages by field. */
type FieldErrors = Record<string, string[]>

export class InvalidBroadcasts extends Error {
  readonly errors: object
  constructor(errors: object) {
    super('The messages cannot be sent as they are')
    this.errors = errors
  }
}

const maxBodyBytes = 12 * 1024 * 1024
const missing = "can't be blank"
const emptySpan: Span = { start: 0, end: 0 }

/** Parses the body down to the payloads. Deeper levels are validated but not built. */
function parseOutline(bytes: Buffer, limits: Partial<JsonLimits>): unknown | Promise<unknown> {
  const work = jsonInSlices(bytes, { maxValues: maxFrameValues, anyKey: true, ...limits })
  return bytes.length <= maxBytesAtOnce ? atOnce(work) : inSlices(work)
}

/** `{messages: [{topic, event, payload, private?}]}` */
export async function readBroadcasts(request: RawRequest): Promise<HttpBroadcast[]> {
  if (!hasJsonBody(request)) throw unsupportedMediaType()
  const bytes = await readBody(request, maxBodyBytes)
  const found = new Map<unknown, Span>()
  const body = await parseOutline(bytes, { emptyAtDepth: 4, locate: { name: 'payload', found } })
  const messages = isObject(body) ? body['messages'] : undefined
  if (!Array.isArray(messages)) throw new InvalidBroadcasts({ messages: [missing] })
  if (messages.length > maxMessagesPerRequest)
    throw new InvalidBroadcasts({ messages: [`should have at most ${maxMessagesPerRequest} item(s)`] })
  const errors = messages.map(fieldErrors)
  const broadcasts = messages.map((message, at) => {
    const { start, end } = found.get(message) ?? emptySpan
    const payload = bytes.subarray(start, end)
    if (payload.length > maxPayloadBytes) errors[at]!['payload'] = [tooLong(maxPayloadBytes)]
    const { topic, event, private: isPrivate } = isObject(message) ? message : {}
    return {
      topic: topic as string,
      isPrivate: isPrivate === true || isPrivate === 'true',
      broadcast: { event: event as string, isJson: true, payload, meta: '' },
    }
  })
  if (errors.some(each => Object.keys(each).length > 0)) throw new InvalidBroadcasts({ messages: errors })
  return broadcasts
}

/** For the route whose body is the payload itself. */
export async function readPayload(
  request: RawRequest,
  topic: string,
  event: string,
  isPrivate: boolean,
): Promise<HttpBroadcast> {
  const isBinary = /^application\/octet-stream\s*(?:;|$)/i.test(request.headers['content-type'] ?? '')
  if (!isBinary && !hasJsonBody(request)) throw unsupportedMediaType()
  const payload = await readBody(request, maxBodyBytes)
  if (!isBinary) await parseOutline(payload, { emptyAtDepth: 1 })
  const errors = fieldErrors({ topic, event, payload: payload.length === 0 && !isBinary ? undefined : {} })
  if (payload.length > maxPayloadBytes) errors['payload'] = [tooLong(maxPayloadBytes)]
  if (Object.keys(errors).length > 0) throw new InvalidBroadcasts(errors)
  return { topic, isPrivate, broadcast: { event, isJson: !isBinary, payload, meta: '' } }
}

function fieldErrors(message: unknown): FieldErrors {
  const { topic, event, payload } = isObject(message) ? message : {}
  const errors: FieldErrors = {}
  const checkName = (field: string, value: unknown, max: number) => {
    if (typeof value !== 'string' || value === '') errors[field] = [missing]
    else if (Buffer.byteLength(value) > max) errors[field] = [tooLong(max)]
  }
  checkName('topic', topic, maxTopicBytes - topicPrefix.length)
  checkName('event', event, maxEventBytes)
  if (payload === undefined || payload === null) errors['payload'] = [missing]
  return errors
}

const tooLong = (max: number) => `should be at most ${max} byte(s)`
const hasJsonBody = ({ headers }: RawRequest) =>
  /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(headers['content-type'] ?? '')
const unsupportedMediaType = () =>
  new Refusal('unsupported_media_type', 'Send application/json, or application/octet-stream for bytes')

/** The common error body, with `errors` for each message. */
export function invalidBroadcastsReply({ message, errors }: InvalidBroadcasts): RawReply {
  const { status, code } = new Refusal('invalid_broadcast', message)
  return jsonReply(status, {
    ...dataRefusal({ status, code, message, hint: '', details: '', headers: {} }),
    errors,
  })
}
