// Bodies that hold messages. They are looked at and then handed to Postgres as they came: a number of any size, and any
// key, arrives as it was sent.
import { Refusal } from '#src/kernel/errors.ts'
import { endOfText, parseJsonBody } from '#src/kernel/http/json-body.ts'

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

/** `{msg_id}` or `{msg_ids}`. */
export function settleWish(json: Buffer): { ids: readonly number[]; areMany: boolean } {
  const fields = fieldsOf(json, ['msg_id', 'msg_ids'])
  const { msg_id, msg_ids } = fields
  if ((msg_id === undefined) === (msg_ids === undefined))
    throw invalid('The body must have either the field "msg_id" or the field "msg_ids"')
  if (msg_ids === undefined) {
    if (!isWhole(msg_id, 1, Number.MAX_SAFE_INTEGER))
      throw invalid('Field "msg_id" must be the id of a message')
    return { ids: [msg_id], areMany: false }
  }
  if (!Array.isArray(msg_ids) || msg_ids.length > maxBatch)
    throw invalid(`Field "msg_ids" must be an array of at most ${maxBatch} ids`)
  if (!msg_ids.every(id => isWhole(id, 1, Number.MAX_SAFE_INTEGER)))
    throw invalid('Field "msg_ids" must hold ids of messages')
  return { ids: msg_ids, areMany: true }
}

function fieldsOf(json: Buffer, known: readonly string[], needed?: string): Fields {
  const body = parseJsonBody(json, { anyKey: true })
  refuseUnfolding(json)
  if (!isObject(body)) throw invalid('The body must be an object')
  const stranger = Object.keys(body).find(key => !known.includes(key))
  if (stranger !== undefined) throw invalid(`The body has an unknown field "${stranger}"`)
  if (needed !== undefined && !Object.hasOwn(body, needed))
    throw invalid(`The body must have the field "${needed}"`)
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

/** Postgres writes a number out in full: `1e-9999` sent as seven characters would come back as ten thousand. */
const maxZeros = 1_000_000
const [quote, smallE, bigE] = Buffer.from('"eE')

const mayUnfold = /[eE][+-]?\d\d/

function refuseUnfolding(json: Buffer): void {
  if (!mayUnfold.test(json.toString('latin1'))) return
  let zeros = 0
  for (let at = 0; at < json.length; at++) {
    if (json[at] === quote) at = endOfText(json, at)
    else if (json[at] === smallE || json[at] === bigE) {
      // Also the end of `true` and `false`, where no digits follow.
      zeros += Number(/^[+-]?(\d+)/.exec(json.toString('latin1', at + 1, at + 20))?.[1] ?? 0)
      if (zeros > maxZeros)
        throw invalid('The numbers in the message are too long when written out; send them as texts')
    }
  }
}
