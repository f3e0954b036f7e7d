// Encodes and decodes frames of the Phoenix Channels protocol from realtime contract §2, without a client
// library.
import assert from 'node:assert/strict'

export type Version = '1.0.0' | '2.0.0'

export interface Message {
  joinRef: string | null
  ref: string | null
  topic: string
  event: string
  payload: any
  /** The received frame; of a binary one its bytes as latin1. */
  text: string
  isBinary: boolean
}

export interface UserBroadcast {
  topic: string
  event: string
  /** A Buffer is sent as bytes, anything else as JSON. */
  payload: unknown
  joinRef?: string
  ref?: string
  meta?: string
}

const isRef = (value: unknown) => value === null || typeof value === 'string'

export function decodeText(text: string, version: Version): Message {
  const parsed = JSON.parse(text)
  const known = { text, isBinary: false }
  if (version === '2.0.0') {
    assert.ok(Array.isArray(parsed) && parsed.length === 5, `no frame of 2.0.0: ${text.slice(0, 300)}`)
    const [joinRef, ref, topic, event, payload] = parsed
    assert.ok(isRef(joinRef) && isRef(ref), `refs are strings or null: ${text.slice(0, 300)}`)
    return { joinRef, ref, topic, event, payload, ...known }
  }
  const isFrame = parsed !== null && typeof parsed === 'object' && !Array.isArray(parsed)
  assert.ok(isFrame && typeof parsed.topic === 'string', `no frame of 1.0.0: ${text.slice(0, 300)}`)
  const { topic, event, payload, ref = null, join_ref: joinRef = null } = parsed
  return { joinRef, ref, topic, event, payload, ...known }
}

/** Decoded into the envelope of the text form. The payload is a Buffer if it is not JSON. */
export function decodeBinary(data: Buffer, version: Version): Message {
  assert.equal(version, '2.0.0', 'a binary frame for a client of 1.0.0')
  assert.equal(data[0], 4, 'the client decodes only kind 4')
  const [, topicLength = 0, eventLength = 0, metaLength = 0, encoding] = data
  const eventAt = 5 + topicLength
  const metaAt = eventAt + eventLength
  const topic = data.toString('utf8', 5, eventAt)
  const event = data.toString('utf8', eventAt, metaAt)
  const meta = data.toString('utf8', metaAt, metaAt + metaLength)
  const rest = data.subarray(metaAt + metaLength)
  const payload = {
    type: 'broadcast',
    event,
    payload: encoding === 1 ? JSON.parse(rest.toString()) : rest,
    ...(meta !== '' && { meta: JSON.parse(meta) }),
  }
  const text = data.toString('latin1')
  return { joinRef: null, ref: null, topic, event: 'broadcast', payload, text, isBinary: true }
}

export function encodeBroadcast({ topic, event, payload, joinRef = '', ref = '', meta = '' }: UserBroadcast) {
  const isBytes = payload instanceof Uint8Array
  const parts = [joinRef, ref, topic, event, meta].map(part => Buffer.from(part))
  const content = isBytes ? payload : Buffer.from(JSON.stringify(payload))
  const head = [3, ...parts.map(({ length }) => length), isBytes ? 0 : 1]
  return Buffer.concat([Buffer.from(head), ...parts, content])
}
