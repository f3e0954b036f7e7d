// A pipelined connection to Redis. All commands of one turn of the event loop are written together, and answers arrive in
// the same order. A client library takes several times as much CPU time per command.
import { connect as connectPlain, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { RedisAddress } from './address.ts'
import { encodeCommand, type RedisCommand } from './command.ts'
import { RedisError, RedisUnreachable } from './redis-error.ts'
import { createReplies, type RedisReply } from './replies.ts'

export interface RedisConnection {
  /** Rejects with a RedisError if Redis answers with an error, and with RedisUnreachable if there is no answer. */
  send(command: RedisCommand): Promise<RedisReply>
  /** The same, but strings in the reply are buffers. */
  sendForBytes(command: RedisCommand): Promise<RedisReply>
  readonly isOpen: boolean
  /** Such as 7.0.15. */
  readonly version: string
  close(): void
}

interface Waiting {
  resolve(reply: RedisReply): void
  reject(error: Error): void
  wantsBytes: boolean
}

interface Timeouts {
  connectMs: number
  /** If no answer arrives for this long, the connection is closed. */
  answerMs: number
}
const defaultTimeouts: Timeouts = { connectMs: 1000, answerMs: 2000 }

export async function connectRedis(
  address: RedisAddress,
  timeouts: Timeouts = defaultTimeouts,
): Promise<RedisConnection> {
  const socket = await openSocket(address, timeouts.connectMs)
  const pipeline = createPipeline(socket, timeouts.answerMs)
  // A server that accepts connections and never answers counts as unreachable.
  const timer = setTimeout(pipeline.close, timeouts.connectMs)
  try {
    const hello = (await pipeline.send(helloCommand(address))) as RedisReply[]
    const version = String(hello[hello.indexOf('version') + 1])
    return Object.assign(pipeline, { version })
  } catch (error) {
    pipeline.close()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** Chooses the protocol version and logs in. */
export const helloCommand = ({ login }: RedisAddress): RedisCommand => [
  ...['HELLO', '2'],
  ...(login ? ['AUTH', login.user, login.password] : []),
]

export function openSocket({ host, port, isTls }: RedisAddress, connectMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const options = { host, port, noDelay: true, keepAlive: true }
    const socket = isTls ? connectTls({ ...options, servername: host }) : connectPlain(options)
    const fail = (error: Error) => {
      clearTimeout(timer)
      socket.destroy()
      reject(new RedisUnreachable('Redis cannot be reached', error))
    }
    const timer = setTimeout(() => fail(new Error('connecting took too long')), connectMs)
    socket.once('error', fail)
    socket.once(isTls ? 'secureConnect' : 'connect', () => {
      clearTimeout(timer)
      socket.off('error', fail)
      resolve(socket)
    })
  })
}

function createPipeline(socket: Socket, answerMs: number): Omit<RedisConnection, 'version'> {
  let waiting: Waiting[] = []
  let first = 0
  let answered = 0
  let unsent = ''
  let isSending = false
  let isOpen = true
  let checkTimer: NodeJS.Timeout | undefined

  const replies = createReplies(
    reply => {
      const command = waiting[first]
      if (!command) throw new Error('Redis sent an answer without a command')
      waiting[first++] = undefined as unknown as Waiting
      answered++
      if (first > 1024) {
        waiting = waiting.slice(first)
        first = 0
      }
      if (reply instanceof RedisError) command.reject(reply)
      else command.resolve(reply)
    },
    () => waiting[first]?.wantsBytes ?? false,
  )

  function end(reason: unknown): void {
    if (!isOpen) return
    isOpen = false
    clearTimeout(checkTimer)
    socket.destroy()
    const left = waiting.slice(first)
    waiting = []
    first = 0
    for (const { reject } of left) reject(new RedisUnreachable('the connection to Redis was lost', reason))
  }

  function flush(): void {
    isSending = false
    if (!isOpen || unsent === '') return
    socket.write(unsent)
    unsent = ''
  }

  function write(encoded: string | Buffer): void {
    if (typeof encoded !== 'string') {
      flush()
      socket.write(encoded)
      return
    }
    unsent += encoded
    if (isSending) return
    isSending = true
    setImmediate(flush)
  }

  /** Closes the connection if commands wait and no answer has arrived since the previous check. */
  function check(answeredBefore: number): void {
    if (first === waiting.length) checkTimer = undefined
    else if (answered === answeredBefore) end(new Error('Redis took too long to answer'))
    else checkTimer = setTimeout(check, answerMs, answered).unref()
  }

  function enqueue(command: RedisCommand, wantsBytes: boolean): Promise<RedisReply> {
    return new Promise((resolve, reject) => {
      if (!isOpen) return reject(new RedisUnreachable('the connection to Redis was lost'))
      waiting.push({ resolve, reject, wantsBytes })
      write(encodeCommand(command))
      checkTimer ??= setTimeout(check, answerMs, answered).unref()
    })
  }

  socket.on('data', chunk => {
    try {
      replies.take(chunk)
    } catch (error) {
      end(error)
    }
  })
  socket.on('error', end)
  socket.on('close', () => end(new Error('closed by Redis')))

  return {
    send: command => enqueue(command, false),
    sendForBytes: command => enqueue(command, true),
    get isOpen() {
      return isOpen
    },
    close: () => end(new Error('closed')),
  }
}
