// What a client sends on a channel: broadcasts, and that it is present.
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

/** With the envelope of a text. */
export function sendText(channel: Channel, message: Message): void {
  const { payload } = message
  const event = isObject(payload) ? payload['event'] : undefined
  if (typeof event !== 'string') return refuse(channel, message, 'A broadcast needs the name of its event')
  send(channel, message, { event, isJson: true, payload: message.innerPayload() ?? noPayload, meta: '' })
}

export const sendBytes = (channel: Channel, push: UserPush): void =>
  send(channel, push, { event: push.userEvent, isJson: push.isJson, payload: push.bytes, meta: '' })

function send(channel: Channel, message: Message | UserPush, broadcast: Broadcast): void {
  if (!channel.permissions.maySendBroadcast) return refuse(channel, message, reasons.maySend)
  if (broadcast.payload.length > maxPayloadBytes) return refuse(channel, message, reasons.payloadTooLarge)
  if (Buffer.byteLength(broadcast.event) > maxEventBytes)
    return refuse(channel, message, reasons.eventTooLong)
  channel.home.project.broadcast(channel.space, broadcast, channel.hearsItself ? undefined : channel)
  if (channel.acksBroadcasts) channel.reply(message, 'ok', '{}')
}

/** Without an acknowledgement nothing answers a broadcast; that it went nowhere is told all the same. */
function refuse(channel: Channel, message: Message | UserPush, reason: string): void {
  if (channel.acksBroadcasts) channel.reply(message, 'error', JSON.stringify({ reason }))
  else channel.complain(reason)
}

export function changePresence(channel: Channel, message: Message): void {
  const wish = isObject(message.payload) ? message.payload : {}
  const deed = typeof wish['event'] === 'string' ? wish['event'].toLowerCase() : ''
  const problem =
    deed === 'track'
      ? track(channel, message, wish)
      : deed === 'untrack'
        ? untrack(channel)
        : 'UnknownPresenceEvent: Presence takes `track` and `untrack`'
  if (problem === undefined) channel.reply(message, 'ok', '{}')
  else channel.reply(message, 'error', JSON.stringify({ reason: problem }))
}

function track(
  channel: Channel,
  message: Message,
  wish: Readonly<Record<string, unknown>>,
): string | undefined {
  const { project } = channel.home
  if (!channel.permissions.maySendPresence) return reasons.maySend
  const payload = wish['payload'] ?? {}
  if (!isObject(payload)) return 'InvalidPresencePayload: What is tracked must be an object'
  const bytes = (isObject(wish['payload']) && message.innerPayload()) || noPayload
  if (bytes.length > maxTrackedBytes) return reasons.trackedTooLarge
  const tracked = bytes.toString('utf8')
  if (!mayTrackAgain(channel)) return reasons.tooManyTracks
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
  if (!project.track(channel.space, next, previous)) return reasons.presenceTooLarge
  channel.trackedText = tracked
  channel.tracked = next
  return
}

function untrack(channel: Channel): undefined {
  if (channel.tracked) channel.home.project.untrack(channel.space, channel.tracked)
  channel.tracked = undefined
  channel.trackedText = ''
}

function mayTrackAgain(channel: Channel): boolean {
  const since = performance.now() - tracksWindowMs
  const recent = channel.trackTimes.filter(at => at > since)
  if (recent.length >= maxTracks) return false
  channel.trackTimes = [...recent, performance.now()]
  return true
}
