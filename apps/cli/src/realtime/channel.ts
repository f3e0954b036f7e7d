// One WebSocket connection with one joined channel, from open to close.
import { randomBytes } from 'node:crypto'
import { text as readText } from 'node:stream/consumers'
import { Failure } from '../failure.ts'
import { textIn } from '../health.ts'
import { acceptedCredentials } from './credential.ts'
import { decode, encode, joinRef, type Message } from './messages.ts'

export interface ChannelOptions {
  /** The socket with its credential, as http or https. */
  url: string
  topic: string
  /** The payload of the join. */
  join: object
  /** Closes the connection without an error. */
  signal: AbortSignal
  onJoined(): void
  /** Called for every message of the channel. An error it throws closes the connection. */
  onMessage(message: Message): void
}

/** A transient failure: connecting again may work. */
export interface ConnectionLoss {
  error: Error
  wasJoined: boolean
}

const heartbeatMs = 25_000
const joinTimeoutMs = 10_000

/** Resolves when the connection is closed. Rejects with permanent errors, after which connecting again is useless. */
export async function runChannel(options: ChannelOptions): Promise<ConnectionLoss | null> {
  const outcome = await openChannel(options)
  if (options.signal.aborted) return null
  if (outcome === 'not opened') return lossBeforeOpen(options.url)
  return outcome
}

function openChannel({
  url,
  topic,
  join,
  signal,
  onJoined,
  onMessage,
}: ChannelOptions): Promise<ConnectionLoss | 'not opened' | null> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url.replace(/^http/, 'ws'))
    socket.binaryType = 'arraybuffer'
    let isOpen = false
    let isJoined = false
    let isHeartbeatAnswered = true
    let lastError: string | null = null
    let heartbeat: NodeJS.Timeout | undefined
    const timeout = setTimeout(() => lose('the platform does not answer'), joinTimeoutMs)

    const end = (settle: () => void) => {
      clearTimeout(timeout)
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
      if (!isHeartbeatAnswered) return lose('the platform has stopped answering')
      isHeartbeatAnswered = false
      socket.send(encode('heartbeat', 'phoenix', 'heartbeat', {}))
    }
    socket.onopen = () => {
      isOpen = true
      socket.send(encode(joinRef, topic, 'phx_join', join))
      heartbeat = setInterval(beat, heartbeatMs)
    }
    // The `close` event has the reason.
    socket.onerror = () => {}
    socket.onclose = ({ code, reason }) =>
      isOpen
        ? lose(`the platform has closed it (${code}${reason ? `: ${reason}` : ''})`)
        : end(() => resolve('not opened'))
    socket.onmessage = ({ data }) => {
      const message = decode(data as string | ArrayBuffer)
      if (!message) return
      try {
        handle(message)
      } catch (error) {
        end(() => reject(error))
      }
    }

    function handle(message: Message): void {
      const { topic: about, event, ref, payload } = message
      if (about === 'phoenix') isHeartbeatAnswered = true
      if (about !== topic) return
      if (event === 'phx_reply' && ref === joinRef) return handleJoinReply(payload)
      if (event === 'phx_close') throw closed(lastError)
      if (event === 'phx_error') return lose('the channel has failed')
      if (event === 'system' && payload['status'] === 'error') lastError = String(payload['message'])
      onMessage(message)
    }

    function handleJoinReply({ status, response }: Message['payload']): void {
      clearTimeout(timeout)
      if (status === 'ok') {
        isJoined = true
        return onJoined()
      }
      const reason = textIn(response, 'reason') ?? 'no reason was given'
      if (transientReasons.test(reason)) lose(reason)
      else throw refusedJoin(reason)
    }
  })
}

const lost = (why: string) => new Failure('connection_lost', `The connection was lost: ${why}.`)

/** Reasons for which the same join may work a moment later. */
const transientReasons =
  /^(ConnectionRateLimitReached|ClientJoinRateLimitReached|RealtimeRestarting|InitializingProjectConnection|DatabaseLackOfConnections|UnableToConnectToProject)\b/

function refusedJoin(reason: string): Failure {
  const fix = reason.startsWith('Unauthorized')
    ? 'A private channel needs a policy on realtime.messages that allows this credential to read. The service_role key needs none.'
    : /JWT|Jwt/.test(reason)
      ? `Give ${acceptedCredentials}.`
      : null
  return new Failure('join_refused', `The channel cannot be joined: ${reason.replace(/\.$/, '')}.`, fix)
}

const closed = (lastError: string | null) =>
  new Failure(
    'channel_closed',
    `The platform has closed the channel${lastError ? `: ${lastError.replace(/\.$/, '')}` : ''}.`,
    'Run it again. If the JWT of a user has expired, use a new one.',
  )

/** A WebSocket does not report why it failed to open, so the same request is sent once more as plain HTTP. */
async function lossBeforeOpen(url: string): Promise<ConnectionLoss> {
  const refusal = await refusalOf(url).catch((error: Error) => error)
  if (refusal instanceof Error) return { error: refusal, wasJoined: false }
  if (refusal === null) return { error: lost('it could not be opened'), wasJoined: false }
  const { status, code, message } = refusal
  const failure = new Failure(code, `${message.replace(/\.$/, '')}.`, remedies.get(status) ?? null)
  if (status !== 429 && status < 500) throw failure
  return { error: failure, wasJoined: false }
}

const remedies = new Map<number, string>([
  [401, `Give ${acceptedCredentials}.`],
  [403, 'plinth projects resume <project> serves its traffic again.'],
  [404, 'The platform may have another version, or the URL may be wrong: plinth config show --origin.'],
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
    const request = open(url, { headers, agent: false, timeout: joinTimeoutMs })
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
      readText(reply).then(body => resolve({ status, ...errorIn(status, body) }), reject)
    })
    request.end()
  })
}

function errorIn(status: number, text: string): Omit<HttpRefusal, 'status'> {
  const unknown = { code: `http_${status}`, message: `The platform has refused the connection (${status})` }
  try {
    const body: unknown = JSON.parse(text)
    return { code: textIn(body, 'code') ?? unknown.code, message: textIn(body, 'message') ?? unknown.message }
  } catch {
    return unknown
  }
}
