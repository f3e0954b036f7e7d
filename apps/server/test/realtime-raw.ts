// A WebSocket client that exposes every frame, in the order of arrival.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { WebSocket } from 'ws'
import type { TestPlatform } from './harness.ts'

export type Frame = [joinRef: string | null, ref: string | null, topic: string, event: string, payload: any]
type Ending = { code: number; reason: string }

export interface RawOptions {
  key?: string
  /** The path of the socket with its query. */
  path?: string
  headers?: Record<string, string>
}

const timeoutMs = 60_000

export const socketUrl = (platform: TestPlatform, project: CreatedProject, key = project.anon_key) =>
  `${platform.url.replace('http', 'ws')}/v1/realtime/${project.id}/socket/websocket?token=${key}&vsn=2.0.0`

/** The status of a rejected handshake. */
export async function refused(url: string, headers: Record<string, string> = {}): Promise<Ending['code']> {
  const socket = new WebSocket(url, { headers })
  socket.on('error', () => {})
  const [, answer] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
  answer.resume()
  socket.terminate()
  return answer.statusCode!
}

export class RawSocket {
  readonly connection: WebSocket
  /** Received frames that no call has taken yet. */
  readonly frames: Frame[] = []
  ended: Ending | undefined
  #ref = 0
  #wake: () => void = () => {}

  private constructor(connection: WebSocket) {
    this.connection = connection
    connection.on('error', () => {})
    connection.on('message', (data, isBinary) => {
      if (!isBinary) this.frames.push(JSON.parse(String(data)))
      this.#wake()
    })
    connection.on('close', (code, reason) => {
      this.ended = { code, reason: String(reason) }
      this.#wake()
    })
  }

  static async open(platform: TestPlatform, project: CreatedProject, key?: string): Promise<RawSocket> {
    const socket = new RawSocket(
      new WebSocket(socketUrl(platform, project, key), { perMessageDeflate: false }),
    )
    await once(socket.connection, 'open')
    return socket
  }

  send(frame: Frame | string | Buffer): void {
    this.connection.send(typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame))
  }

  /** Sends an event with a new ref, and returns the ref. */
  push(topic: string, event: string, payload: unknown, joinRef: string | null = null): string {
    const ref = String(++this.#ref)
    this.send([event === 'phx_join' ? ref : joinRef, ref, topic, event, payload])
    return ref
  }

  /** Waits for the first frame that matches, and removes it from `frames`. */
  async next(matches: (frame: Frame) => boolean, what: string): Promise<Frame> {
    const endAt = Date.now() + timeoutMs
    for (;;) {
      const at = this.frames.findIndex(matches)
      if (at >= 0) return this.frames.splice(at, 1)[0]!
      assert.ok(!this.ended, `${what}: the socket has ended: ${JSON.stringify(this.ended)}`)
      await this.#change(endAt, what)
    }
  }

  event(topic: string, event: string): Promise<Frame> {
    return this.next(frame => frame[2] === topic && frame[3] === event, `${event} on ${topic}`)
  }

  async answer(ref: string): Promise<{ status: string; response: any }> {
    return (await this.next(frame => frame[1] === ref && frame[3] === 'phx_reply', `the answer to ${ref}`))[4]
  }

  ask(topic: string, event: string, payload: unknown): Promise<{ status: string; response: any }> {
    return this.answer(this.push(topic, event, payload))
  }

  async join(topic: string, config: object = {}, more: object = {}): Promise<string> {
    const ref = this.push(topic, 'phx_join', { config, ...more })
    const { status, response } = await this.answer(ref)
    assert.equal(status, 'ok', JSON.stringify(response))
    return ref
  }

  /** Sends a heartbeat. Its reply means that the server has handled all earlier frames. */
  async settled(): Promise<void> {
    const { status } = await this.ask('phoenix', 'heartbeat', {})
    assert.equal(status, 'ok')
  }

  async end(): Promise<Ending> {
    const endAt = Date.now() + timeoutMs
    while (!this.ended) await this.#change(endAt, 'the end of the socket')
    return this.ended
  }

  async close(): Promise<void> {
    this.connection.close()
    await this.end()
  }

  async #change(endAt: number, what: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#wake = resolve
    const late = setTimeout(
      () => reject(new Error(`${what}: not within ${timeoutMs} ms`)),
      endAt - Date.now(),
    )
    await promise.finally(() => clearTimeout(late))
  }
}

/** A broadcast as a frame of 2.0.0. */
export const broadcast = (topic: string, event: string, payload: unknown): Frame => [
  null,
  null,
  topic,
  'broadcast',
  { type: 'broadcast', event, payload },
]
