// What nodes tell each other about a project: broadcasts, and who is present. Anything else may come from another
// version of the platform and is ignored.
import type { Broadcast } from './broadcast.ts'
import { isObject } from './wire.ts'

/** Key, phx_ref and meta. */
export type ToldTracked = readonly [key: string, ref: string, meta: string]

export type NodeMessage =
  | ({ readonly kind: 'broadcast'; readonly space: string } & Broadcast)
  | {
      readonly kind: 'presence'
      readonly space: string
      readonly joins: readonly ToldTracked[]
      readonly leaves: readonly string[]
    }
  /** All that is tracked on the node, in place of what it told before; the asker has missed something. */
  | {
      readonly kind: 'state'
      readonly isAsking: boolean
      readonly spaces: readonly (readonly [space: string, present: readonly ToldTracked[]])[]
    }

/** A length, that many bytes of JSON, and the payload of a broadcast as it is. */
export function encodeForNodes(message: NodeMessage): Buffer {
  const { payload, ...rest } = message.kind === 'broadcast' ? message : { ...message, payload: nothing }
  const head = Buffer.from(JSON.stringify(rest))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(head.length)
  return Buffer.concat([length, head, payload])
}

export function decodeFromNode(bytes: Buffer): NodeMessage | undefined {
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
    return isText(space) && areTracked(value['joins']) && isListOf(value['leaves'], isText)
      ? (value as NodeMessage)
      : undefined
  if (kind === 'state')
    return isListOf(value['spaces'], isSpaceState) ? (value as unknown as NodeMessage) : undefined
  return
}

const isText = (value: unknown): value is string => typeof value === 'string'
const isListOf = (value: unknown, is: (each: unknown) => boolean): boolean =>
  Array.isArray(value) && value.every(is)
const areTracked = (value: unknown) =>
  isListOf(value, each => isListOf(each, isText) && (each as unknown[]).length === 3)
const isSpaceState = (value: unknown) => Array.isArray(value) && isText(value[0]) && areTracked(value[1])
const nothing = Buffer.alloc(0)
