// One connection to Redis. Commands of all who use it go out together, at the end of the turn of the event loop they
// were given in, and answers come back in the same order: a client library costs several times as much per command.
import { connect as connectPlain, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { RedisAddress } from './address.ts'
import { encodeCommand, type RedisCommand } from './command.ts'
import { RedisError, RedisUnreachable } from './redis-error.ts'
import { createReplies, type RedisReply } from './replies.ts'

export interface RedisConnection {
  /** Rejects with a RedisError when Redis refuses, with RedisUnreachable when no answer came. */
  send(command: RedisCommand): Promise<RedisReply>
  /** The same, with texts as bytes. */
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

interface Patience {
  connectMs: number
  /** Without a single answer for this long, the connection is given up. */
  answerMs: number
}
const usualPatience: Patience = { connectMs: 1000, answerMs: 2000 }

export async function connectRedis(
  address: RedisAddress,
  patience: Patience = usualPatience,
): Promise<RedisConnection> {
  const socket = await openSocket(address, patience.connectMs)
  const line = createLine(socket, patience.answerMs)
  // One that takes connections and says nothing is not there, either.
  const late = setTimeout(line.close, patience.connectMs)
  try {
    const hello = (await line.send(greeting(address))) as RedisReply[]
    const version = String(hello[hello.indexOf('version') + 1])
    return Object.assign(line, { version })
  } catch (error) {
    line.close()
    throw error
  } finally {
    clearTimeout(late)
  }
}

/** Agrees on the protocol, and logs in. */
export const greeting = ({ login }: RedisAddress): RedisCommand => [
  ...['HELLO', '2'],
  ...(login ? ['AUTH', login.user, login.password] : []),
]

export function openSocket({ host, port, isTls }: RedisAddress, connectMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const options = { host, port, noDelay: true, keepAlive: true }
    const socket = isTls ? connectTls({ ...options, servername: host }) : connectPlain(options)
    const fail = (error: Error) => {
      clearTimeout(late)
      socket.destroy()
      reject(new RedisUnreachable('Redis cannot be reached', error))
    }
    const late = setTimeout(() => fail(new Error('connecting took too long')), connectMs)
    socket.once('error', fail)
    socket.once(isTls ? 'secureConnect' : 'connect', () => {
      clearTimeout(late)
      socket.off('error', fail)
      resolve(socket)
    })
  })
}

function createLine(socket: Socket, answerMs: number): Omit<RedisConnection, 'version'> {
  let waiting: Waiting[] = []
  let first = 0
  let answered = 0
  let unsent = ''
  let isSending = false
  let isOpen = true
  let watch: NodeJS.Timeout | undefined

  const replies = createReplies(
    reply => {
      const asked = waiting[first]
      if (!asked) throw new Error('Redis answered what was not asked')
      waiting[first++] = undefined as unknown as Waiting
      answered++
      if (first > 1024) {
        waiting = waiting.slice(first)
        first = 0
      }
      if (reply instanceof RedisError) asked.reject(reply)
      else asked.resolve(reply)
    },
    () => waiting[first]?.wantsBytes ?? false,
  )

  function end(reason: unknown): void {
    if (!isOpen) return
    isOpen = false
    clearTimeout(watch)
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

  /** Looks twice in the time an answer may take: not one in between means that none will come. */
  function look(answeredBefore: number): void {
    if (first === waiting.length) watch = undefined
    else if (answered === answeredBefore) end(new Error('Redis took too long to answer'))
    else watch = setTimeout(look, answerMs, answered).unref()
  }

  function ask(command: RedisCommand, wantsBytes: boolean): Promise<RedisReply> {
    return new Promise((resolve, reject) => {
      if (!isOpen) return reject(new RedisUnreachable('the connection to Redis was lost'))
      waiting.push({ resolve, reject, wantsBytes })
      write(encodeCommand(command))
      watch ??= setTimeout(look, answerMs, answered).unref()
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
    send: command => ask(command, false),
    sendForBytes: command => ask(command, true),
    get isOpen() {
      return isOpen
    },
    close: () => end(new Error('closed')),
  }
}
