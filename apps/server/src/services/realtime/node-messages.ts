// Messages between nodes about a project: broadcasts and presence. A node of another release may send other kinds, which
// are ignored. `space` is the key of a topic (see topic.ts); the field names are part of the format between releases.
import type { Broadcast } from './broadcast.ts'
import { isObject } from './wire.ts'

export type PresenceEntry = readonly [key: string, phxRef: string, meta: string]

export type NodeMessage =
  | ({ readonly kind: 'broadcast'; readonly space: string } & Broadcast)
  | {
      readonly kind: 'presence'
      readonly space: string
      readonly joins: readonly PresenceEntry[]
      readonly leaves: readonly string[]
    }
  /**
   * Everything tracked on the node; replaces what it published before. With `isAsking`, the receiver answers
   * with its own state.
   */
  | {
      readonly kind: 'state'
      readonly isAsking: boolean
      readonly spaces: readonly (readonly [space: string, entries: readonly PresenceEntry[]])[]
    }

/** The length of the JSON head (4 bytes), the head, and the unchanged payload of a broadcast. */
export function encodeNodeMessage(message: NodeMessage): Buffer {
  const { payload, ...rest } = message.kind === 'broadcast' ? message : { ...message, payload: empty }
  const head = Buffer.from(JSON.stringify(rest))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(head.length)
  return Buffer.concat([length, head, payload])
}

export function decodeNodeMessage(bytes: Buffer): NodeMessage | undefined {
  if (bytes.length < 4) return
  const end = 4 + bytes.readUInt32BE(0)
  if (end > bytes.length) return
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8', 4, end))
  } catch {
    return
  }
  if (!isObject(value)) return
  const { kind, space } = value
  if (kind === 'broadcast')
    return isText(space) && isText(value['event']) && isText(value['meta'])
      ? ({ ...value, payload: bytes.subarray(end) } as NodeMessage)
      : undefined
  if (kind === 'presence')
    return isText(space) && arePresenceEntries(value['joins']) && isListOf(value['leaves'], isText)
      ? (value as NodeMessage)
      : undefined
  if (kind === 'state')
    return isListOf(value['spaces'], isTopicState) ? (value as unknown as NodeMessage) : undefined
  return
}

const isText = (value: unknown): value is string => typeof value === 'string'
const isListOf = (value: unknown, isElement: (each: unknown) => boolean): boolean =>
  Array.isArray(value) && value.every(isElement)
const arePresenceEntries = (value: unknown) =>
  isListOf(value, each => isListOf(each, isText) && (each as unknown[]).length === 3)
const isTopicState = (value: unknown) =>
  Array.isArray(value) && isText(value[0]) && arePresenceEntries(value[1])
const empty = Buffer.alloc(0)
