// Subscribes to channels of Redis on a separate connection, because a subscribed RESP2 connection accepts no other
// commands. A lost connection is opened again and subscribes to the same channels. Messages published meanwhile are
// missed, which is reported. Messages are not buffered, and Redis disconnects a subscriber that reads too slowly.
import type { Socket } from 'node:net'
import { createChore } from '#src/kernel/chores.ts'
import type { RedisAddress } from './address.ts'
import { encodeCommand } from './command.ts'
import { helloCommand, openSocket } from './connection.ts'
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
  /** All messages on the channel are delivered from now on. Those published since `lost` were missed. */
  subscribed(channel: string): void
  /** No messages arrive until `subscribed`. Called for each connection that ends and each that cannot be opened. */
  lost(reason: unknown): void
}

export interface SubscriptionTimes {
  connectMs: number
  /** The interval of PINGs. If nothing was received in one interval, the connection is closed. */
  lookMs: number
  /** The pause before the next attempt, which doubles each time up to the longest. */
  firstPauseMs: number
  longestPauseMs: number
}
const defaultTimes: SubscriptionTimes = {
  connectMs: 1000,
  lookMs: 2000,
  firstPauseMs: 100,
  longestPauseMs: 3000,
}

const maxChannelsPerCommand = 500

export function openSubscription(
  address: RedisAddress,
  events: SubscriptionEvents,
  times: SubscriptionTimes = defaultTimes,
): Subscription {
  const channels = new Set<string>()
  let socket: Socket | undefined
  let isLoggedIn = false
  /** Whether something was received since the last check. */
  let isAlive = false
  const checking = createChore({
    name: 'check the subscription to Redis',
    everyMs: times.lookMs,
    run: check,
  })
  let retryTimer: NodeJS.Timeout | undefined
  let pauseMs = times.firstPauseMs
  let isClosed = false

  function send(command: string, names: readonly string[]): void {
    for (let at = 0; at < names.length; at += maxChannelsPerCommand)
      socket?.write(encodeCommand([command, ...names.slice(at, at + maxChannelsPerCommand)]))
  }

  function receive(reply: RedisReply): void {
    isAlive = true
    if (reply instanceof RedisError) throw reply
    if (!isLoggedIn) {
      isLoggedIn = true
      send('SUBSCRIBE', [...channels])
      return
    }
    // The reply to a PING while no channel is subscribed.
    if (!Array.isArray(reply)) return
    const [kind, name, message] = reply as [Buffer, Buffer, Buffer]
    const channel = name.toString()
    if (!channels.has(channel)) return
    if (kind.equals(messageKind)) events.message(channel, message)
    else if (kind.equals(subscribeKind)) {
      pauseMs = times.firstPauseMs
      events.subscribed(channel)
    }
  }

  function check(): 'idle' | undefined {
    if (!socket) return 'idle'
    if (!isAlive) {
      lose(new RedisUnreachable('Redis gives no sign of life'))
      return 'idle'
    }
    isAlive = false
    if (isLoggedIn) socket.write(encodeCommand(['PING']))
    return undefined
  }

  function lose(reason: unknown): void {
    socket?.destroy()
    socket = undefined
    isLoggedIn = false
    if (isClosed) return
    events.lost(reason)
    // Jitter, so that nodes that were disconnected together do not reconnect together.
    retryTimer = setTimeout(connect, pauseMs * (0.75 + Math.random() / 2)).unref()
    pauseMs = Math.min(times.longestPauseMs, pauseMs * 2)
  }

  function connect(): void {
    openSocket(address, times.connectMs).then(listen, lose)
  }

  function listen(opened: Socket): void {
    if (isClosed) return void opened.destroy()
    socket = opened
    isAlive = true
    const end = (reason: unknown) => {
      if (socket === opened) lose(reason)
    }
    const replies = createReplies(
      reply => {
        if (socket === opened) receive(reply)
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
    opened.write(encodeCommand(helloCommand(address)))
    checking.start()
  }

  connect()
  return {
    add(channel) {
      if (channels.has(channel)) return
      channels.add(channel)
      if (isLoggedIn) send('SUBSCRIBE', [channel])
    },
    remove(channel) {
      if (channels.delete(channel) && isLoggedIn) send('UNSUBSCRIBE', [channel])
    },
    close() {
      isClosed = true
      clearTimeout(retryTimer)
      void checking.stop()
      lose(undefined)
    },
  }
}

const messageKind = Buffer.from('message')
const subscribeKind = Buffer.from('subscribe')
