// Messages that a client sends on a channel: broadcasts and presence.
import { randomBytes } from 'node:crypto'
import type { Broadcast } from './broadcast.ts'
import type { Channel } from './channel.ts'
import {
  maxEventBytes,
  maxPayloadBytes,
  maxTrackedBytes,
  maxTracks,
  reasons,
  tracksWindowMs,
} from './limits.ts'
import { trackedMeta } from './presence.ts'
import { isObject, type Message, type UserPush } from './wire.ts'

const noPayload = Buffer.from('{}')

/** A broadcast as a text frame, with event and payload in JSON. */
export function broadcastText(channel: Channel, message: Message): void {
  const { payload } = message
  const event = isObject(payload) ? payload['event'] : undefined
  if (typeof event !== 'string') return reject(channel, message, 'A broadcast needs the name of its event')
  send(channel, message, { event, isJson: true, payload: message.innerPayload() ?? noPayload, meta: '' })
}

export const broadcastBytes = (channel: Channel, push: UserPush): void =>
  send(channel, push, { event: push.userEvent, isJson: push.isJson, payload: push.bytes, meta: '' })

function send(channel: Channel, message: Message | UserPush, broadcast: Broadcast): void {
  if (!channel.permissions.maySendBroadcast) return reject(channel, message, reasons.sendForbidden)
  if (broadcast.payload.length > maxPayloadBytes) return reject(channel, message, reasons.payloadTooLarge)
  if (Buffer.byteLength(broadcast.event) > maxEventBytes)
    return reject(channel, message, reasons.eventTooLong)
  channel.socket.project.broadcast(
    channel.topicKey,
    broadcast,
    channel.receivesOwnBroadcasts ? undefined : channel,
  )
  if (channel.acksBroadcasts) channel.reply(message, 'ok', '{}')
}

/** Without acknowledgements a broadcast has no reply, so the error is sent as a system message. */
function reject(channel: Channel, message: Message | UserPush, reason: string): void {
  if (channel.acksBroadcasts) channel.reply(message, 'error', JSON.stringify({ reason }))
  else channel.sendError(reason)
}

export function changePresence(channel: Channel, message: Message): void {
  const request = isObject(message.payload) ? message.payload : {}
  const action = typeof request['event'] === 'string' ? request['event'].toLowerCase() : ''
  const error =
    action === 'track'
      ? track(channel, message, request)
      : action === 'untrack'
        ? untrack(channel)
        : 'UnknownPresenceEvent: Presence takes `track` and `untrack`'
  if (error === undefined) channel.reply(message, 'ok', '{}')
  else channel.reply(message, 'error', JSON.stringify({ reason: error }))
}

function track(
  channel: Channel,
  message: Message,
  request: Readonly<Record<string, unknown>>,
): string | undefined {
  const { project } = channel.socket
  if (!channel.permissions.maySendPresence) return reasons.sendForbidden
  const payload = request['payload'] ?? {}
  if (!isObject(payload)) return 'InvalidPresencePayload: What is tracked must be an object'
  const bytes = (isObject(request['payload']) && message.innerPayload()) || noPayload
  if (bytes.length > maxTrackedBytes) return reasons.trackedTooLarge
  const tracked = bytes.toString('utf8')
  if (!takeTrackAttempt(channel)) return reasons.tooManyTracks
  if (!project.rates.mayTrack()) return reasons.tooMuchPresence
  channel.enablePresence()
  if (channel.tracked && channel.trackedText === tracked) return
  channel.presenceKey ||= crypto.randomUUID()
  const ref = randomBytes(9).toString('base64url')
  const previous = channel.tracked
  const next = {
    key: channel.presenceKey,
    ref,
    meta: trackedMeta(tracked, ref, previous?.ref),
    node: '',
  }
  if (!project.track(channel.topicKey, next, previous)) return reasons.presenceTooLarge
  channel.trackedText = tracked
  channel.tracked = next
  return
}

function untrack(channel: Channel): undefined {
  if (channel.tracked) channel.socket.project.untrack(channel.topicKey, channel.tracked)
  channel.tracked = undefined
  channel.trackedText = ''
}

function takeTrackAttempt(channel: Channel): boolean {
  const since = performance.now() - tracksWindowMs
  const recent = channel.trackTimes.filter(at => at > since)
  if (recent.length >= maxTracks) return false
  channel.trackTimes = [...recent, performance.now()]
  return true
}
