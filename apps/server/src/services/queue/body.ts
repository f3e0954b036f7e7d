// Bodies that hold messages. They are looked at and then handed to Postgres as they came: a number of any size, and any
// key, arrives as it was sent.
import { Refusal } from '#src/kernel/errors.ts'
import { parseJsonBody } from '#src/kernel/http/json-body.ts'

export interface MessageBody {
  readonly json: Buffer
  readonly delay: number
}

type Fields = Readonly<Record<string, unknown>>

const maxDelay = 3_155_760_000
const maxBatch = 10_000

/** `{message, delay?, headers?}` */
export function oneMessage(json: Buffer): MessageBody {
  const fields = fieldsOf(json, ['message', 'delay', 'headers'], 'message')
  refuseHeaders(fields['headers'], 'headers')
  return { json, delay: delayOf(fields) }
}

/** `{messages, delay?, headers?}`, the headers one for each message. */
export function manyMessages(json: Buffer): MessageBody {
  const fields = fieldsOf(json, ['messages', 'delay', 'headers'], 'messages')
  const { messages, headers } = fields
  if (!Array.isArray(messages) || messages.length > maxBatch)
    throw invalid(`Field "messages" must be an array of at most ${maxBatch} messages`)
  if (headers !== undefined && headers !== null) {
    if (!Array.isArray(headers) || headers.length !== messages.length)
      throw invalid('Field "headers" must be an array with one element for each message')
    for (const [at, each] of headers.entries()) refuseHeaders(each, `headers.${at}`)
  }
  return { json, delay: delayOf(fields) }
}

/** `{vt, qty?}` */
export function readWish(json: Buffer): { vt: number; qty: number } {
  const { vt, qty = 1 } = fieldsOf(json, ['vt', 'qty'], 'vt')
  if (!isWhole(vt, 0, maxDelay))
    throw invalid(`Field "vt" must be a whole number of seconds from 0 to ${maxDelay}`)
  if (!isWhole(qty, 1, 1000)) throw invalid('Field "qty" must be a whole number from 1 to 1000')
  return { vt, qty }
}

function fieldsOf(json: Buffer, known: readonly string[], needed: string): Fields {
  const body = parseJsonBody(json, { anyKey: true })
  if (!isObject(body)) throw invalid('The body must be an object')
  const stranger = Object.keys(body).find(key => !known.includes(key))
  if (stranger !== undefined) throw invalid(`The body has an unknown field "${stranger}"`)
  if (!Object.hasOwn(body, needed)) throw invalid(`The body must have the field "${needed}"`)
  return body
}

function delayOf({ delay = 0 }: Fields): number {
  if (!isWhole(delay, 0, maxDelay))
    throw invalid(`Field "delay" must be a whole number of seconds from 0 to ${maxDelay}`)
  return delay
}

function refuseHeaders(headers: unknown, field: string): void {
  if (headers !== undefined && headers !== null && !isObject(headers))
    throw invalid(`Field "${field}" must be an object or null`)
}

const isWhole = (value: unknown, low: number, high: number): value is number =>
  Number.isInteger(value) && (value as number) >= low && (value as number) <= high
const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const invalid = (message: string) => new Refusal('invalid_request', message)
