// Limits the memory that one answer of `pg` may take, because tenants choose the statements.
import { Refusal } from '#src/kernel/errors.ts'
import { type DriverClient, onCommandTag, onMessage, socketOf } from './driver-internals.ts'
import { throttleReading } from './read-throttle.ts'

/** The answer of one statement on its own connection. */
export const maxAnswerBytes = 64 * 1024 * 1024
/** The driver decodes a whole row at once. */
const maxRowBytes = 16 * 1024 * 1024

export interface Received {
  /** Bytes since the statement was sent. */
  bytes: number
  /** Bytes since the last complete message. */
  messageBytes: number
  /** Set if the connection was closed because of a limit. */
  refusal: Refusal | undefined
  /** The full command tag of the last statement. */
  tag: string
}
const known = new WeakMap<DriverClient, Received>()

/** Counts the received bytes of a connection, and closes it when they exceed a limit. */
export function countReceived(client: DriverClient, max: number): Received {
  const counted = known.get(client)
  if (counted) return counted
  const received: Received = { bytes: 0, messageBytes: 0, refusal: undefined, tag: '' }
  const socket = socketOf(client)
  onCommandTag(client, tag => {
    received.tag = tag
  })
  onMessage(client, () => {
    received.messageBytes = 0
  })
  socket.on('data', (chunk: Buffer) => {
    received.bytes += chunk.length
    received.messageBytes += chunk.length
    if (received.refusal) return
    if (received.bytes > max) received.refusal = answerTooLarge(max)
    else if (received.messageBytes > maxRowBytes) received.refusal = rowTooLarge()
    else return
    socket.destroy()
  })
  throttleReading(socket)
  known.set(client, received)
  return received
}

/** Readers throw it too, because their encoding of an answer may be longer than the answer. */
export const answerTooLarge = (max = maxAnswerBytes) =>
  new Refusal('sql_error', `A statement answered with more than ${max / 1024 / 1024} MB and was ended`, {
    hint: 'Ask for fewer rows with limit, or for fewer columns.',
  })

const rowTooLarge = () =>
  new Refusal('sql_error', `A row, notice or error has more than ${maxRowBytes / 1024 / 1024} MB`, {
    hint: 'Shorten it, for example with substring or left.',
  })
