// The arguments of a function call as sent, before the function is known.
import { isUtf8 } from 'node:buffer'
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import { arrayLiteral } from '#src/kernel/postgres/array-literal.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import type { Routine } from '#src/query/catalog.ts'
import type { Run } from '#src/query/run.ts'
import { admitCall, quickBytes } from './admission.ts'
import { badBody } from './bad-body.ts'
import { csvRows } from './csv.ts'
import { formRow } from './form.ts'
import { isOperation } from './grammar/filter.ts'
import { namesIn } from './grammar/rows-query.ts'
import type { Pair, Scanned } from './grammar/scan.ts'
import { scanJson, sliceBytes } from './json-scan.ts'
import { jsonIn, maxBodyBytes, mediaTypeOf } from './payload.ts'
import type { RestRequest } from './request.ts'

export interface Given {
  readonly names: readonly string[]
  /** With these types, a single unnamed parameter receives the whole body. */
  readonly wholeTypes: readonly string[]
  readonly body: Value
  /** The body is an array, whose first object has the arguments. */
  readonly isArray: boolean
  /** Every value in the body is a string, also those of JSON parameters. */
  readonly isText: boolean
  /** The arguments of a GET by name. */
  readonly texts: ReadonlyMap<string, string>
}

const nothing = {
  wholeTypes: [],
  body: null,
  isArray: false,
  isText: false,
  texts: new Map<string, string>(),
}

/** Parameters of some function of this name are arguments; the rest are filters on what it returns. */
export function givenInQuery(
  pairs: readonly Pair[],
  overloads: readonly Routine[],
): { given: Given; others: Pair[] } {
  const parameters = new Map(overloads.flatMap(routine => routine.parameters).map(each => [each.name, each]))
  const isColumn = (name: string) => overloads.some(({ columns }) => columns.has(name))
  const values = new Map<string, string[]>()
  const others: Pair[] = []
  for (const pair of pairs) {
    const { key, value } = pair
    const isFilter = parameters.has(key)
      ? isOperation(value) && isColumn(key)
      : modifiers.test(key) || isOperation(value)
    if (isFilter) others.push(pair)
    else if (values.has(key)) values.get(key)!.push(value)
    else values.set(key, [value])
  }
  const texts = new Map<string, string>()
  for (const [key, all] of values) {
    const isList = parameters.get(key)?.isVariadic && (all.length > 1 || !all[0]!.startsWith('{'))
    texts.set(key, isList ? arrayLiteral(all) : all.at(-1)!)
  }
  return { given: { ...nothing, names: [...texts.keys()], texts }, others }
}

const modifiers = /^(?:.*\.)?(?:select|order|limit|offset|and|or|columns|on_conflict)$/

/** The format of the arguments. Refuses a media type that no function takes before the body is read. */
function argumentsFormat(type: string): 'json' | 'form' | 'csv' | 'text' | 'xml' | 'bytea' {
  switch (type) {
    case 'application/json':
      return 'json'
    case 'application/x-www-form-urlencoded':
      return 'form'
    case 'text/csv':
      return 'csv'
    case 'text/plain':
      return 'text'
    case 'text/xml':
    case 'application/xml':
      return 'xml'
    case 'application/octet-stream':
      return 'bytea'
    default:
      throw new Refusal('unsupported_media_type', `A function takes no body of type "${type}"`, {
        hint: 'Send application/json.',
      })
  }
}

export async function givenInBody(
  request: RestRequest,
  name: string,
  { parameters }: Scanned,
  run: Run,
): Promise<Given> {
  const { raw } = request
  const format = argumentsFormat(mediaTypeOf(raw.headers['content-type']))
  const columns = namesIn(parameters, 'columns')
  const body = await readBody(raw, maxBodyBytes)
  if (body.length > quickBytes) await admitCall(request, name, run)
  switch (format) {
    case 'json': {
      const json = body.length === 0 ? noArguments : jsonIn(body)
      const { kind, rows } = await inSlices(scanJson(json, { anyElement: true }))
      const names = columns ?? rows.names
      return { ...nothing, names, wholeTypes: ['json', 'jsonb'], body: json, isArray: kind === 'array' }
    }
    case 'form': {
      const { json, values } = await inSlices(formRow(body))
      return { ...nothing, names: columns ?? [...values.keys()], body: json, isText: true }
    }
    case 'csv': {
      const { json, names, count } = await inSlices(csvRows(body))
      const given = columns ?? (count > 0 ? names : [])
      return { ...nothing, names: given, body: json, isArray: true, isText: true }
    }
    case 'bytea':
      return { ...nothing, names: [], wholeTypes: ['bytea'], body: await inSlices(byteaText(body)) }
    default:
      if (!isUtf8(body) || body.includes(0)) throw badBody('The body is not a text')
      return { ...nothing, names: [], wholeTypes: [format], body }
  }
}

const noArguments = Buffer.from('{}')

/** The hex format of bytea. */
function* byteaText(bytes: Buffer): Sliced<Buffer> {
  const text = Buffer.allocUnsafe(2 + bytes.length * 2)
  text.write('\\x')
  for (let at = 0; at < bytes.length; at += sliceBytes) {
    if (at > 0) yield
    text.write(bytes.toString('hex', at, at + sliceBytes), 2 + at * 2, 'latin1')
  }
  return text
}
