// How the attacks of attacks.ts are sent.
import { once } from 'node:events'
import { request } from 'node:http'

export interface Sent {
  method: string
  path: string
  headers?: Record<string, string>
  body?: Buffer
}

const patienceMs = 60_000

/** The status; 0 when the platform closed the connection without one, or did not answer in time. */
export async function send(url: string, { method, path, headers = {}, body }: Sent): Promise<number> {
  const sending = request(url + path, {
    method,
    headers: { ...headers, ...(body && { 'content-length': String(body.length) }) },
    signal: AbortSignal.timeout(patienceMs),
    agent: false,
  })
  const answered = new Promise<number>(resolve => {
    sending.once('response', answer => {
      answer.resume()
      answer.on('error', () => {})
      answer.once('close', () => resolve(answer.statusCode!))
    })
    sending.once('error', () => resolve(0))
  })
  sending.end(body)
  return answered
}

/** Opens a socket, sends the frames and waits until a harmless last one is answered or the socket is closed. */
export async function sendFrames(
  url: string,
  path: string,
  frames: readonly (string | Buffer)[],
): Promise<number> {
  const socket = new WebSocket(url.replace(/^http/, 'ws') + path)
  await once(socket, 'open')
  const ended = Promise.race([
    once(socket, 'close').then(() => 0),
    new Promise<number>(resolve => {
      socket.addEventListener('message', ({ data }) => {
        if (String(data).includes('"last"')) resolve(101)
      })
    }),
  ])
  for (const frame of frames) socket.send(frame as string)
  socket.send(JSON.stringify([null, 'last', 'phoenix', 'heartbeat', {}]))
  const status = await ended
  socket.close()
  return status
}
