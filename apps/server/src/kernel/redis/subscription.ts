// Channels of Redis, listened to over a connection of their own: one that listens can do nothing else. It is opened
// again whenever it is lost, and listens to the same channels; what was published meanwhile is missed, and told so.
// Nothing is kept here: a message is handed on as it arrives, and whoever reads too slowly is cut off by Redis.
import type { Socket } from 'node:net'
import type { RedisAddress } from './address.ts'
import { encodeCommand } from './command.ts'
import { greeting, openSocket } from './connection.ts'
import { RedisError, RedisUnreachable } from './redis-error.ts'
import { createReplies, type RedisReply } from './replies.ts'

export interface Subscription {
  add(channel: string): void
  remove(channel: string): void
  close(): void
}

/** None of these may throw. */
export interface SubscriptionEvents {
  message(channel: string, message: Buffer): void
  /** From here on every message on the channel comes; what was published before, since `lost`, does not. */
  heard(channel: string): void
  /** Nothing comes until `heard`; told of every connection that ends and of every one that cannot be had. */
  lost(reason: unknown): void
}

export interface SubscriptionPatience {
  connectMs: number
  /** Redis is asked for a sign of life this often; the second time without one, the connection is given up. */
  lookMs: number
  /** Until the next attempt: doubled each time, up to the longest. */
  firstPauseMs: number
  longestPauseMs: number
}
const usualPatience: SubscriptionPatience = {
  connectMs: 1000,
  lookMs: 2000,
  firstPauseMs: 100,
  longestPauseMs: 3000,
}

/** Channels named in one command. */
const atOnce = 500

export function openSubscription(
  address: RedisAddress,
  events: SubscriptionEvents,
  patience: SubscriptionPatience = usualPatience,
): Subscription {
  const channels = new Set<string>()
  let socket: Socket | undefined
  /** Whether Redis has let this connection in. */
  let isIn = false
  let hasSign = false
  let looking: NodeJS.Timeout | undefined
  let retrying: NodeJS.Timeout | undefined
  let pauseMs = patience.firstPauseMs
  let isClosed = false

  function say(word: string, names: readonly string[]): void {
    for (let at = 0; at < names.length; at += atOnce)
      socket?.write(encodeCommand([word, ...names.slice(at, at + atOnce)]))
  }

  function take(reply: RedisReply): void {
    hasSign = true
    if (reply instanceof RedisError) throw reply
    if (!isIn) {
      isIn = true
      say('SUBSCRIBE', [...channels])
      return
    }
    // A sign of life while there is no channel.
    if (!Array.isArray(reply)) return
    const [kind, name, message] = reply as [Buffer, Buffer, Buffer]
    const channel = name.toString()
    if (!channels.has(channel)) return
    if (kind.equals(messageKind)) events.message(channel, message)
    else if (kind.equals(subscribeKind)) {
      pauseMs = patience.firstPauseMs
      events.heard(channel)
    }
  }

  function look(): void {
    if (!hasSign) return lose(new RedisUnreachable('Redis gives no sign of life'))
    hasSign = false
    if (isIn) socket?.write(encodeCommand(['PING']))
  }

  function lose(reason: unknown): void {
    clearInterval(looking)
    socket?.destroy()
    socket = undefined
    isIn = false
    if (isClosed) return
    events.lost(reason)
    // Nodes that were cut off together do not come back together.
    retrying = setTimeout(connect, pauseMs * (0.75 + Math.random() / 2)).unref()
    pauseMs = Math.min(patience.longestPauseMs, pauseMs * 2)
  }

  function connect(): void {
    openSocket(address, patience.connectMs).then(listen, lose)
  }

  function listen(opened: Socket): void {
    if (isClosed) return void opened.destroy()
    socket = opened
    hasSign = true
    const end = (reason: unknown) => {
      if (socket === opened) lose(reason)
    }
    const replies = createReplies(
      reply => {
        if (socket === opened) take(reply)
      },
      () => true,
    )
    opened.on('data', chunk => {
      try {
        replies.take(chunk)
      } catch (error) {
        end(error)
      }
    })
    opened.on('error', end)
    opened.on('close', () => end(new RedisUnreachable('the connection to Redis was lost')))
    opened.write(encodeCommand(greeting(address)))
    looking = setInterval(look, patience.lookMs).unref()
  }

  connect()
  return {
    add(channel) {
      if (channels.has(channel)) return
      channels.add(channel)
      if (isIn) say('SUBSCRIBE', [channel])
    },
    remove(channel) {
      if (channels.delete(channel) && isIn) say('UNSUBSCRIBE', [channel])
    },
    close() {
      isClosed = true
      clearTimeout(retrying)
      lose(undefined)
    },
  }
}

const messageKind = Buffer.from('message')
const subscribeKind = Buffer.from('subscribe')
