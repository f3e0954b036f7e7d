// A message to all members of a topic, and its encoded frames. Each frame is encoded once, for the first member that
// needs it.
import type { SentMessage } from './subscriber.ts'
import { encodeMessage, encodeUserBroadcast, type Version } from './wire.ts'

export interface Broadcast {
  readonly event: string
  readonly isJson: boolean
  /** JSON text, or any bytes. */
  readonly payload: Buffer
  /** JSON text of the `meta` field, or empty. */
  readonly meta: string
  /** Set for messages stored in realtime.messages, which can be replayed. */
  readonly id?: string
}

/** The broadcast for a message that SQL sent. */
export const broadcastOf = ({ id, event, payload }: SentMessage, isReplayed: boolean): Broadcast => ({
  event,
  isJson: true,
  payload: Buffer.from(payload),
  id,
  meta: isReplayed ? `{"id":${JSON.stringify(id)},"replayed":true}` : `{"id":${JSON.stringify(id)}}`,
})

export class BroadcastFrames {
  readonly #topic: string
  readonly #broadcast: Broadcast
  #version1: Buffer | undefined
  #version2: Buffer | undefined

  constructor(topic: string, broadcast: Broadcast) {
    this.#topic = topic
    this.#broadcast = broadcast
  }

  /** Undefined for binary payloads in version 1.0.0, which has no binary frames. */
  of(version: Version): Buffer | undefined {
    if (version === '2.0.0') {
      this.#version2 ??= this.#broadcast.isJson ? this.#textFrame(version) : this.#binaryFrame()
      return this.#version2
    }
    if (this.#broadcast.isJson) this.#version1 ??= this.#textFrame(version)
    return this.#version1
  }

  /** JSON payloads are sent as text, because some clients of 2.0.0 do not decode binary frames. */
  #textFrame(version: Version): Buffer {
    const { event, payload, meta } = this.#broadcast
    const before = `{"type":"broadcast","event":${JSON.stringify(event)},"payload":`
    const after = meta === '' ? '}' : `,"meta":${meta}}`
    return encodeMessage(version, this.#topic, 'broadcast', { before, json: payload, after })
  }

  #binaryFrame(): Buffer {
    const { event, payload, meta } = this.#broadcast
    return encodeUserBroadcast(this.#topic, event, meta, false, payload)
  }
}
