// One connection to a channel, from its opening to its end.
import { randomBytes } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { Failure } from '../failure.ts'
import { textIn } from '../health.ts'
import { wanted } from './credential.ts'
import { decode, encode, joinRef, type Message } from './messages.ts'

export interface Wish {
  /** The socket with its credential, as http or https. */
  url: string
  topic: string
  /** The payload of the join. */
  join: object
  /** Ends it without complaint. */
  signal: AbortSignal
  joined(): void
  /** Whatever the channel says; what it throws ends the connection. */
  hear(message: Message): void
}

/** Something that may be gone a moment later. */
export interface Loss {
  error: Error
  wasJoined: boolean
}

const heartbeatMs = 25_000
const joinPatienceMs = 10_000

/** Rejects when it makes no sense to come again. */
export async function attend(wish: Wish): Promise<Loss | null> {
  const ending = await converse(wish)
  if (wish.signal.aborted) return null
  if (ending === 'not opened') return unopened(wish.url)
  return ending
}

function converse({ url, topic, join, signal, joined, hear }: Wish): Promise<Loss | 'not opened' | null> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url.replace(/^http/, 'ws'))
    socket.binaryType = 'arraybuffer'
    let isOpen = false
    let isJoined = false
    let isAnswered = true
    let complaint: string | null = null
    let heartbeat: NodeJS.Timeout | undefined
    const patience = setTimeout(() => lose('the platform does not answer'), joinPatienceMs)

    const end = (settle: () => void) => {
      clearTimeout(patience)
      clearInterval(heartbeat)
      signal.removeEventListener('abort', interrupted)
      socket.close()
      settle()
    }
    const lose = (why: string) => end(() => resolve({ error: lost(why), wasJoined: isJoined }))
    const interrupted = () => end(() => resolve(null))
    signal.addEventListener('abort', interrupted, { once: true })
    if (signal.aborted) interrupted()

    const beat = () => {
      if (!isAnswered) return lose('the platform has stopped answering')
      isAnswered = false
      socket.send(encode('heartbeat', 'phoenix', 'heartbeat', {}))
    }
    socket.onopen = () => {
      isOpen = true
      socket.send(encode(joinRef, topic, 'phx_join', join))
      heartbeat = setInterval(beat, heartbeatMs)
    }
    // What closed it comes with `close`.
    socket.onerror = () => {}
    socket.onclose = ({ code, reason }) =>
      isOpen
        ? lose(`the platform has closed it (${code}${reason ? `: ${reason}` : ''})`)
        : end(() => resolve('not opened'))
    socket.onmessage = ({ data }) => {
      const message = decode(data as string | ArrayBuffer)
      if (!message) return
      try {
        take(message)
      } catch (error) {
        end(() => reject(error))
      }
    }

    function take(message: Message): void {
      const { topic: about, event, ref, payload } = message
      if (about === 'phoenix') isAnswered = true
      if (about !== topic) return
      if (event === 'phx_reply' && ref === joinRef) return answered(payload)
      if (event === 'phx_close') throw closed(complaint)
      if (event === 'phx_error') return lose('the channel has failed')
      if (event === 'system' && payload['status'] === 'error') complaint = String(payload['message'])
      hear(message)
    }

    function answered({ status, response }: Message['payload']): void {
      clearTimeout(patience)
      if (status === 'ok') {
        isJoined = true
        return joined()
      }
      const reason = textIn(response, 'reason') ?? 'no reason was given'
      if (passing.test(reason)) lose(reason)
      else throw refusedJoin(reason)
    }
  })
}

const lost = (why: string) => new Failure('connection_lost', `The connection was lost: ${why}.`)

/** Reasons of a join that hold for a moment only. */
const passing =
  /^(ConnectionRateLimitReached|ClientJoinRateLimitReached|RealtimeRestarting|InitializingProjectConnection|DatabaseLackOfConnections|UnableToConnectToProject)\b/

function refusedJoin(reason: string): Failure {
  const fix = reason.startsWith('Unauthorized')
    ? 'A private channel needs a policy on realtime.messages that lets this credential read it; the service_role key needs none.'
    : /JWT|Jwt/.test(reason)
      ? `Give ${wanted}.`
      : null
  return new Failure('join_refused', `The channel cannot be joined: ${reason.replace(/\.$/, '')}.`, fix)
}

const closed = (complaint: string | null) =>
  new Failure(
    'channel_closed',
    `The platform has closed the channel${complaint ? `: ${complaint.replace(/\.$/, '')}` : ''}.`,
    'Run it again; a user’s JWT that has expired must be replaced by a new one.',
  )

/** A WebSocket does not tell why it was not opened: the same is asked for once more in plain HTTP. */
async function unopened(url: string): Promise<Loss> {
  const refusal = await refusalOf(url).catch((error: Error) => error)
  if (refusal instanceof Error) return { error: refusal, wasJoined: false }
  if (refusal === null) return { error: lost('it could not be opened'), wasJoined: false }
  const { status, code, message } = refusal
  const failure = new Failure(code, `${message.replace(/\.$/, '')}.`, remedies.get(status) ?? null)
  if (status !== 429 && status < 500) throw failure
  return { error: failure, wasJoined: false }
}

const remedies = new Map<number, string>([
  [401, `Give ${wanted}.`],
  [403, 'plinth projects resume <project> lets it serve traffic again.'],
  [404, 'The platform may be of another version, or the URL may be wrong: plinth config show --origin.'],
  [429, 'Wait a moment and run it again.'],
])

interface HttpRefusal {
  status: number
  code: string
  message: string
}

async function refusalOf(url: string): Promise<HttpRefusal | null> {
  const { request: open } = url.startsWith('https:') ? await import('node:https') : await import('node:http')
  return new Promise((resolve, reject) => {
    const headers = {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
    }
    const request = open(url, { headers, agent: false, timeout: joinPatienceMs })
    request.on('error', reject)
    request.on('timeout', () =>
      request.destroy(Object.assign(new Error('it did not answer in time'), { code: 'ETIMEDOUT' })),
    )
    request.on('upgrade', (_reply, socket) => {
      socket.destroy()
      resolve(null)
    })
    request.on('response', reply => {
      const status = reply.statusCode ?? 0
      text(reply).then(said => resolve({ status, ...wording(status, said) }), reject)
    })
    request.end()
  })
}

function wording(status: number, said: string): Omit<HttpRefusal, 'status'> {
  const unknown = { code: `http_${status}`, message: `The platform has refused the connection (${status})` }
  try {
    const body: unknown = JSON.parse(said)
    return { code: textIn(body, 'code') ?? unknown.code, message: textIn(body, 'message') ?? unknown.message }
  } catch {
    return unknown
  }
}
