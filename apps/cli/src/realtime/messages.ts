// Messages of the Phoenix protocol 2.0.0: arrays as text, or binary broadcasts.

export interface Message {
  ref: string | null
  topic: string
  event: string
  payload: Record<string, unknown>
}

export const encode = (ref: string, topic: string, event: string, payload: object): string =>
  JSON.stringify([topic === 'phoenix' ? null : joinRef, ref, topic, event, payload])

/** One channel per connection, joined once. */
export const joinRef = '1'

/** Null for an invalid message, which is ignored. */
export function decode(data: string | ArrayBuffer): Message | null {
  try {
    return typeof data === 'string' ? fromText(data) : fromBytes(Buffer.from(data))
  } catch {
    return null
  }
}

function fromText(text: string): Message | null {
  const [, ref, topic, event, payload] = parse(text) as unknown[]
  if (typeof topic !== 'string' || typeof event !== 'string') return null
  return {
    ref: typeof ref === 'string' ? ref : null,
    topic,
    event,
    payload: typeof payload === 'object' && payload !== null ? (payload as Message['payload']) : {},
  }
}

const broadcastKind = 4
const jsonEncoding = 1

/** One byte each: kind, lengths of topic, event and metadata, encoding. Then topic, event, metadata and payload. */
function fromBytes(bytes: Buffer): Message | null {
  const [kind, topicLength = 0, eventLength = 0, metaLength = 0, encoding] = bytes
  if (kind !== broadcastKind) return null
  const [topicEnd, eventEnd] = [5 + topicLength, 5 + topicLength + eventLength]
  const body = bytes.subarray(eventEnd + metaLength)
  return {
    ref: null,
    topic: bytes.toString('utf8', 5, topicEnd),
    event: 'broadcast',
    payload: {
      event: bytes.toString('utf8', topicEnd, eventEnd),
      ...(encoding === jsonEncoding
        ? { payload: parse(body.toString('utf8')) }
        : { bytes: body.toString('base64') }),
    },
  }
}

/** Numbers that JavaScript cannot hold, such as large ids, are passed on as they were written. */
const parse = (text: string): unknown => exactJson.parse(text, exact)

const exact: Reviver = (_key, value, { source }) =>
  typeof value === 'number' && String(value) !== source ? exactJson.rawJSON(source!) : value

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown
/** JSON functions of Node 24 that the types of TypeScript lack. */
const exactJson = JSON as unknown as {
  parse(text: string, reviver: Reviver): unknown
  rawJSON(text: string): unknown
}
