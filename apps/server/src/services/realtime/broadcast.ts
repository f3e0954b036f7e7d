// A message for everybody on a topic, and the frames it travels in: each is made once, when the first receiver needs it.
import type { SentMessage } from './subscriber.ts'
import { encodeMessage, encodeUserBroadcast, type Version } from './wire.ts'

export interface Broadcast {
  readonly event: string
  readonly isJson: boolean
  /** JSON text, or any bytes. */
  readonly payload: Buffer
  /** JSON text of what is said about the message, or empty. */
  readonly meta: string
  /** Of a message that is kept, and may be replayed. */
  readonly id?: string
}

/** Of SQL. */
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
  #old: Buffer | undefined
  #new: Buffer | undefined

  constructor(topic: string, broadcast: Broadcast) {
    this.#topic = topic
    this.#broadcast = broadcast
  }

  /** Bytes are nothing that clients of 1.0.0 could be told. */
  of(version: Version): Buffer | undefined {
    if (version === '2.0.0') {
      this.#new ??= this.#broadcast.isJson ? this.#text(version) : this.#bytes()
      return this.#new
    }
    if (this.#broadcast.isJson) this.#old ??= this.#text(version)
    return this.#old
  }

  /** Text is what every client understands, also those that know nothing of binary frames. */
  #text(version: Version): Buffer {
    const { event, payload, meta } = this.#broadcast
    const before = `{"type":"broadcast","event":${JSON.stringify(event)},"payload":`
    const after = meta === '' ? '}' : `,"meta":${meta}}`
    return encodeMessage(version, this.#topic, 'broadcast', { before, json: payload, after })
  }

  #bytes(): Buffer {
    const { event, payload, meta } = this.#broadcast
    return encodeUserBroadcast(this.#topic, event, meta, false, payload)
  }
}
