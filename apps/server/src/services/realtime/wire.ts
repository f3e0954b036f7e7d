// Phoenix Channels on the wire: arrays as text (2.0.0), objects as text (1.0.0), and broadcasts as bytes (2.0.0).
import { isUtf8 } from 'node:buffer'
import { binaryFrame, textFrame } from '#src/kernel/http/websocket-frame.ts'
import { elementTexts, memberText } from './json-text.ts'

export type Version = '1.0.0' | '2.0.0'
export type Ref = string | number | null

export interface Message {
  readonly joinRef: Ref
  readonly ref: Ref
  readonly topic: string
  readonly event: string
  /** Parsed; keys of any name, which are read only by their own. */
  readonly payload: unknown
  /** The payload as it was written. */
  payloadText(): string
}

/** A broadcast sent as bytes: the payload alone, without an envelope. */
export interface UserPush {
  readonly joinRef: Ref
  readonly ref: Ref
  readonly topic: string
  readonly userEvent: string
  readonly isJson: boolean
  readonly bytes: Buffer
}

/** What is not a message, and why. */
export class Malformed extends Error {}

const maxName = 255
const userPush = 3
const userBroadcast = 4

export function decode(data: Buffer, isBinary: boolean, version: Version): Message | UserPush {
  if (!isBinary) return decodeText(data.toString('utf8'), version)
  if (version !== '2.0.0') throw new Malformed('binary frames need vsn=2.0.0')
  return decodeUserPush(data)
}

function decodeText(text: string, version: Version): Message {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Malformed('the frame is not JSON')
  }
  if (version === '2.0.0') {
    if (!Array.isArray(value) || value.length !== 5)
      throw new Malformed('the frame is not [join_ref, ref, topic, event, payload]')
    const [joinRef, ref, topic, event, payload] = value
    return checked(joinRef, ref, topic, event, payload, () => elementTexts(text)[4]!)
  }
  if (!isObject(value)) throw new Malformed('the frame is not {topic, event, payload, ref}')
  const { join_ref: joinRef = null, ref = null, topic, event, payload = {} } = value
  return checked(joinRef, ref, topic, event, payload, () => memberText(text, 'payload') ?? '{}')
}

function checked(
  joinRef: unknown,
  ref: unknown,
  topic: unknown,
  event: unknown,
  payload: unknown,
  payloadText: () => string,
): Message {
  if (!isRef(joinRef) || !isRef(ref)) throw new Malformed('refs are short texts or null')
  if (typeof topic !== 'string' || typeof event !== 'string') throw new Malformed('topic and event are texts')
  if (Buffer.byteLength(event) > maxName) throw new Malformed('the event is longer than 255 bytes')
  return { joinRef, ref, topic, event, payload, payloadText }
}

const isRef = (ref: unknown): ref is Ref =>
  ref === null || typeof ref === 'number' || (typeof ref === 'string' && ref.length <= maxName)

function decodeUserPush(data: Buffer): UserPush {
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
  const bytes = data.subarray(at)
  return { joinRef, ref, topic, userEvent, isJson, bytes: isJson ? jsonBytes(bytes) : bytes }
}

/** Others are told what they can read, whatever somebody sends. */
function jsonBytes(bytes: Buffer): Buffer {
  const text = bytes.toString('utf8')
  try {
    JSON.parse(text)
  } catch {
    throw new Malformed('the payload is not JSON')
  }
  return isUtf8(bytes) ? bytes : Buffer.from(text)
}

/** A frame. The payload is JSON text. */
export function encodeMessage(
  version: Version,
  topic: string,
  event: string,
  payload: string,
  joinRef: Ref = null,
  ref: Ref = null,
): Buffer {
  const named = `${JSON.stringify(topic)},`
  return version === '2.0.0'
    ? textFrame(
        `[${JSON.stringify(joinRef)},${JSON.stringify(ref)},${named}${JSON.stringify(event)},${payload}]`,
      )
    : textFrame(
        `{"topic":${named}"event":${JSON.stringify(event)},"payload":${payload},"ref":${JSON.stringify(ref)}${
          joinRef === null ? '' : `,"join_ref":${JSON.stringify(joinRef)}`
        }}`,
      )
}

export const encodeReply = (
  version: Version,
  { joinRef, ref, topic }: Pick<Message, 'joinRef' | 'ref' | 'topic'>,
  status: 'ok' | 'error',
  response: string,
): Buffer =>
  encodeMessage(version, topic, 'phx_reply', `{"status":"${status}","response":${response}}`, joinRef, ref)

/** A frame of 2.0.0 that holds bytes, or JSON text as bytes. */
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
