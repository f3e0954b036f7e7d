// The wire format of Phoenix Channels: JSON arrays (2.0.0), JSON objects (1.0.0), and binary broadcasts (2.0.0).
import { isUtf8 } from 'node:buffer'
import { Refusal } from '#src/kernel/errors.ts'
import type { JsonLimits, Span } from '#src/kernel/http/json-tree.ts'
import { jsonInSlices } from '#src/kernel/http/large-json.ts'
import { binaryFrame, textFrame, textFrameAround } from '#src/kernel/http/websocket-frame.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import { elementTexts, memberText } from './json-text.ts'

export type Version = '1.0.0' | '2.0.0'
export type Ref = string | number | null

export interface Message {
  readonly joinRef: Ref
  readonly ref: Ref
  readonly topic: string
  readonly event: string
  /** Parsed JSON. Clients choose the keys, so read own properties only. */
  readonly payload: unknown
  /** The bytes of the payload's own member `payload`, unchanged. Undefined if there is none. */
  innerPayload(): Buffer | undefined
}

/** A broadcast in a binary frame: event and payload without JSON around them. */
export interface UserPush {
  readonly joinRef: Ref
  readonly ref: Ref
  readonly topic: string
  readonly userEvent: string
  readonly isJson: boolean
  readonly bytes: Buffer
}

/** The frame is not a valid message. The text says why, and is sent to the client. */
export class Malformed extends Error {}

type UncheckedMessage = Record<Exclude<keyof Message, 'innerPayload'>, unknown> &
  Pick<Message, 'innerPayload'>

const maxName = 255
const userPush = 3
const userBroadcast = 4

/** Frames up to this size are decoded at once, larger ones in slices. */
export const maxBytesAtOnce = 64 * 1024

export function decode(data: Buffer, isBinary: boolean, version: Version): Message | UserPush {
  if (isBinary) {
    const push = decodeUserPush(data, version)
    return push.isJson ? { ...push, bytes: jsonBytes(push.bytes) } : push
  }
  const text = data.toString('utf8')
  const value = parseJson(text)
  return messageFrom(value, version, () => {
    const payload = version === '2.0.0' ? elementTexts(text)[4]! : (memberText(text, 'payload') ?? '{}')
    const inner = memberText(payload, 'payload')
    return inner === undefined ? undefined : Buffer.from(inner)
  })
}

/** Like `decode`, in slices, for a frame of any size. */
export function* decodeLarge(data: Buffer, isBinary: boolean, version: Version): Sliced<Message | UserPush> {
  if (isBinary) {
    const push = decodeUserPush(data, version)
    if (push.isJson) yield* checkPayload(push.bytes)
    return push
  }
  const found = new Map<unknown, Span>()
  // The content of broadcasts is passed on as bytes. It is validated, but no objects are built from it.
  const outline = yield* frameInSlices(data, { emptyAtDepth: 3, locate: { name: 'payload', found } })
  const message = messageFrom(outline, version, () => {
    const span = found.get(message.payload)
    return span && data.subarray(span.start, span.end)
  })
  if (message.event === 'broadcast') return message
  const value = yield* frameInSlices(data, { maxValues: maxBuiltValues, emptyAtDepth: 7 })
  return { ...message, payload: messageFrom(value, version, message.innerPayload).payload }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Malformed('the frame is not JSON')
  }
}

function messageFrom(value: unknown, version: Version, innerPayload: Message['innerPayload']): Message {
  if (version === '2.0.0') {
    if (!Array.isArray(value) || value.length !== 5)
      throw new Malformed('the frame is not [join_ref, ref, topic, event, payload]')
    const [joinRef, ref, topic, event, payload] = value
    return validated({ joinRef, ref, topic, event, payload, innerPayload })
  }
  if (!isObject(value)) throw new Malformed('the frame is not {topic, event, payload, ref}')
  const { join_ref: joinRef = null, ref = null, topic, event, payload = {} } = value
  return validated({ joinRef, ref, topic, event, payload, innerPayload })
}

function validated({ joinRef, ref, topic, event, payload, innerPayload }: UncheckedMessage): Message {
  if (!isRef(joinRef) || !isRef(ref)) throw new Malformed('refs are short texts or null')
  if (typeof topic !== 'string' || typeof event !== 'string') throw new Malformed('topic and event are texts')
  if (Buffer.byteLength(event) > maxName) throw new Malformed('the event is longer than 255 bytes')
  return { joinRef, ref, topic, event, payload, innerPayload }
}

const isRef = (ref: unknown): ref is Ref =>
  ref === null || typeof ref === 'number' || (typeof ref === 'string' && ref.length <= maxName)

function decodeUserPush(data: Buffer, version: Version): UserPush {
  if (version !== '2.0.0') throw new Malformed('binary frames need vsn=2.0.0')
  if (data[0] !== userPush) throw new Malformed('of binary frames, only broadcasts (kind 3) are taken')
  if (data.length < 7) throw new Malformed('the frame is cut short')
  const isJson = data[6] === 1
  if (!isJson && data[6] !== 0) throw new Malformed('the encoding of the payload is neither 0 nor 1')
  let at = 7
  const part = (length: number) => {
    const end = at + length
    if (end > data.length) throw new Malformed('the frame is cut short')
    const text = data.toString('utf8', at, end)
    at = end
    return text
  }
  const joinRef = part(data[1]!) || null
  const ref = part(data[2]!) || null
  const topic = part(data[3]!)
  const userEvent = part(data[4]!)
  part(data[5]!)
  return { joinRef, ref, topic, userEvent, isJson, bytes: data.subarray(at) }
}

/** JSON values in one frame. */
export const maxFrameValues = 500_000
/** Lower for joins and presence, because their values become objects. */
export const maxBuiltValues = 50_000

function* frameInSlices(bytes: Buffer, limits: Partial<JsonLimits>): Sliced<unknown> {
  try {
    return yield* jsonInSlices(bytes, {
      maxValues: maxFrameValues,
      anyKey: true,
      maxDepth: maxFrameValues,
      allowsLoneSurrogates: true,
      ...limits,
    })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new Malformed(error.code === 'invalid_json' ? 'the frame is not JSON' : error.message)
  }
}

function* checkPayload(bytes: Buffer): Sliced<void> {
  if ((yield* frameInSlices(bytes, { emptyAtDepth: 1 })) === undefined)
    throw new Malformed('the payload is not JSON')
}

/** Replaces invalid UTF-8: the payload goes to other clients in text frames, which must be valid. */
function jsonBytes(bytes: Buffer): Buffer {
  const text = bytes.toString('utf8')
  try {
    JSON.parse(text)
  } catch {
    throw new Malformed('the payload is not JSON')
  }
  return isUtf8(bytes) ? bytes : Buffer.from(text)
}

/** JSON bytes with text around them. Copying large payloads avoids decoding and encoding them again. */
export interface Enclosed {
  readonly before: string
  readonly json: Buffer
  readonly after: string
}

/** Returns a WebSocket frame. `payload` is JSON text. */
export function encodeMessage(
  version: Version,
  topic: string,
  event: string,
  payload: string | Enclosed,
  joinRef: Ref = null,
  ref: Ref = null,
): Buffer {
  const [topicJson, eventJson, refJson] = [topic, event, ref].map(each => JSON.stringify(each))
  const [before, after] =
    version === '2.0.0'
      ? [`[${JSON.stringify(joinRef)},${refJson},${topicJson},${eventJson},`, ']']
      : [
          `{"topic":${topicJson},"event":${eventJson},"payload":`,
          `,"ref":${refJson}${joinRef === null ? '' : `,"join_ref":${JSON.stringify(joinRef)}`}}`,
        ]
  if (typeof payload === 'string') return textFrame(`${before}${payload}${after}`)
  return textFrameAround(`${before}${payload.before}`, payload.json, `${payload.after}${after}`)
}

export const encodeReply = (
  version: Version,
  { joinRef, ref, topic }: Pick<Message, 'joinRef' | 'ref' | 'topic'>,
  status: 'ok' | 'error',
  response: string,
): Buffer =>
  encodeMessage(version, topic, 'phx_reply', `{"status":"${status}","response":${response}}`, joinRef, ref)

/** A binary frame of 2.0.0. */
export function encodeUserBroadcast(
  topic: string,
  event: string,
  meta: string,
  isJson: boolean,
  payload: Buffer,
): Buffer {
  const names = [topic, event, meta].map(each => Buffer.from(each))
  const head = Buffer.from([userBroadcast, ...names.map(each => each.length), isJson ? 1 : 0])
  return binaryFrame(head, ...names, payload)
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
