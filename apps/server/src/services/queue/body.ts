// Request bodies of queues. Messages are validated but not parsed into objects: Postgres gets the original bytes, with numbers
// of any size and keys of any name.
import { Refusal } from '#src/kernel/errors.ts'
import { maxBytesAtOnce, parseJsonBody } from '#src/kernel/http/json-body.ts'
import { jsonInSlices } from '#src/kernel/http/large-json.ts'
import { inSlices } from '#src/kernel/slices.ts'

export interface MessageBody {
  readonly json: Buffer
  readonly delay: number
}

type Fields = Readonly<Record<string, unknown>>

const maxDelay = 3_155_760_000
const maxBatch = 10_000
/** Maximum values in a body with messages, which Postgres parses in one statement. */
export const maxMessageValues = 500_000
/** Maximum values in a body without messages: a few more than the ids it may contain. */
const maxFieldValues = maxBatch + 10

/** `{message, delay?, headers?}` */
export async function oneMessage(json: Buffer): Promise<MessageBody> {
  const fields = await fieldsOfMessages(json, ['message', 'delay', 'headers'], 'message')
  refuseHeaders(fields['headers'], 'headers')
  return { json, delay: delayOf(fields) }
}

/** `{messages, delay?, headers?}`, the headers one for each message. */
export async function manyMessages(json: Buffer): Promise<MessageBody> {
  const fields = await fieldsOfMessages(json, ['messages', 'delay', 'headers'], 'messages')
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
export function parseReadOptions(json: Buffer): { vt: number; qty: number } {
  const { vt, qty = 1 } = fieldsOf(json, ['vt', 'qty'], 'vt')
  if (!isWhole(vt, 0, maxDelay))
    throw invalid(`Field "vt" must be a whole number of seconds from 0 to ${maxDelay}`)
  if (!isWhole(qty, 1, 1000)) throw invalid('Field "qty" must be a whole number from 1 to 1000')
  return { vt, qty }
}

/** `{msg_id}` or `{msg_ids}`. */
export function parseMessageIds(json: Buffer): { ids: readonly number[]; areMany: boolean } {
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
  return checkFields(parseJsonBody(json, { anyKey: true, maxValues: maxFieldValues }), known, needed)
}

/** Parses the fields. Arrays and objects inside elements are left empty. */
async function fieldsOfMessages(json: Buffer, known: readonly string[], needed: string): Promise<Fields> {
  if (json.length <= maxBytesAtOnce && !mayUnfold.test(json.toString('latin1')))
    return fieldsOf(json, known, needed)
  const outline = jsonInSlices(json, {
    maxValues: maxMessageValues,
    anyKey: true,
    emptyAtDepth: 3,
    onExponent: createUnfoldingLimit(),
  })
  return checkFields(await inSlices(outline), known, needed)
}

function checkFields(body: unknown, known: readonly string[], needed: string | undefined): Fields {
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

/** Postgres expands numbers: `1e-9999` has seven characters and would come back with ten thousand. */
const maxZeros = 1_000_000
const mayUnfold = /[eE][+-]?\d\d/

function createUnfoldingLimit(): (exponent: string) => void {
  let zeros = 0
  return exponent => {
    zeros += Number(exponent)
    if (zeros > maxZeros)
      throw invalid('The numbers in the message are too long when written out; send them as texts')
  }
}
