// GET, HEAD and POST on a function.
import { isUtf8 } from 'node:buffer'
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import type { RawReply } from '#src/kernel/http/request.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import type { Form } from '#src/query/answer-sql.ts'
import { type Arguments, callSql } from '#src/query/call-sql.ts'
import type { Catalog, Parameter, Routine } from '#src/query/catalog.ts'
import { arrayLiteral, nothingFound, readOperation } from '#src/query/filter.ts'
import { planLevel, sourceOfRoutine } from '#src/query/plan.ts'
import { type Pair, type Scanned, scan } from '#src/query/scan.ts'
import { admitCall, quickBytes } from './admission.ts'
import { badBody } from './bad-body.ts'
import { type Execute, type Prepared, preparedFrom } from './execute.ts'
import { formRow } from './form.ts'
import { scanJson, sliceBytes } from './json-scan.ts'
import { jsonIn, maxBodyBytes, mediaTypeOf } from './payload.ts'
import { cap, needGeometry, windowed } from './read.ts'
import { contentRange, numberIn, ownResponse, planReply, reply, textOf } from './reply.ts'
import type { RestRequest } from './request.ts'
import { findRoutine } from './routine.ts'

interface PreparedCall extends Prepared {
  readonly version: number
  readonly routine: Routine
  readonly offset: number | undefined
}

/** The arguments as sent, before it is known which function they are for. */
interface Given {
  readonly names: readonly string[]
  /** Types of an unnamed parameter that would take the body whole. */
  readonly wholeBody: readonly string[]
  readonly body: Value
  /** Of a GET, by name. */
  readonly texts: ReadonlyMap<string, readonly string[]>
  /** Which of them may be one element of a list. */
  readonly variadic: ReadonlySet<string>
  /** Query parameters that are not arguments. */
  readonly pairs: readonly Pair[]
}

const meant = ['return', 'count', 'tx', 'handling', 'timezone', 'max-affected']

export async function call(
  request: RestRequest,
  name: string,
  execute: Execute,
  catalogNow: () => Promise<Catalog> | Catalog,
  maxRows: number,
): Promise<RawReply> {
  // The name belongs to a route of its own, whatever functions a project has.
  if (name === 'exec_sql') throw new Refusal('PGRST101', 'exec_sql is called by POST')
  const { schema, accepted, preferences, isHead } = request
  const catalog = request.isRead ? await catalogNow() : undefined
  const given = catalog
    ? givenInQuery(request.pairs, catalog.functions(schema, name))
    : await givenInBody(request, name, execute)
  const scanned = scan(request.isRead ? windowed(given.pairs, request.raw) : given.pairs)
  const argumentValues = [...given.texts].map(([key, texts]) =>
    texts.length > 1 || (given.variadic.has(key) && !texts[0]!.startsWith('{'))
      ? arrayLiteral(texts)
      : texts[0]!,
  )
  const isCounted = isHead || preferences.count !== undefined
  const shape = [
    'call',
    schema,
    name,
    request.raw.method,
    accepted.key,
    request.raw.headers.range !== undefined,
    isCounted,
    preferences.maxAffected ?? '',
    given.wholeBody.join(),
    ...given.names,
  ].join('\0')
  const { prepared, row, rows } = await execute(
    request,
    shape + scanned.shape,
    catalog => prepareCall(catalog, request, name, given, scanned, isCounted, maxRows),
    { values: [...scanned.values, ...argumentValues], body: given.body },
  )
  // What counts as an argument was decided by another schema than the one that ran: nothing was written, so again.
  if (catalog && prepared.version !== catalog.version)
    return call(request, name, execute, catalogNow, maxRows)
  if (accepted.explain) return planReply(request, rows)

  const { routine } = prepared
  const own = ownResponse(row[4], row[5])
  const offset = prepared.offset === undefined ? 0 : Number(scanned.values[prepared.offset])
  const isMinimal = routine.returns === 'void' || preferences.sent.get('return') === 'minimal'
  return reply(request, {
    status: own.status ?? (isMinimal ? 204 : 200),
    range: contentRange(offset, numberIn(row[1])!, numberIn(row[2])),
    meant,
    body: isHead || isMinimal ? null : textOf(row[0] ?? Buffer.from('null')),
    headers: own.headers,
  })
}

/** Parameters of some function of this name are arguments; the rest are filters on what it returns. */
function givenInQuery(pairs: readonly Pair[], overloads: readonly Routine[]): Given {
  const all = overloads.flatMap(routine => routine.parameters)
  const parameters = new Set(all.map(parameter => parameter.name))
  const variadic = new Set(all.filter(each => each.isVariadic).map(parameter => parameter.name))
  const texts = new Map<string, string[]>()
  const others: Pair[] = []
  for (const pair of pairs) {
    const isArgument = parameters.has(pair.key) || !isModifier(pair)
    if (!isArgument) others.push(pair)
    else if (texts.has(pair.key)) texts.get(pair.key)!.push(pair.value)
    else texts.set(pair.key, [pair.value])
  }
  return { names: [...texts.keys()], wholeBody: [], body: null, texts, variadic, pairs: others }
}

const modifiers = /^(?:.*\.)?(?:select|order|limit|offset|and|or|columns|on_conflict)$/

const isModifier = ({ key, value }: Pair): boolean =>
  modifiers.test(key) || readOperation(value, nothingFound()) !== undefined

/** How the arguments are sent. Refuses a body that no function takes, before it is read. */
function argumentsFormat(type: string): 'json' | 'form' | 'text' | 'xml' | 'bytea' {
  switch (type) {
    case 'application/json':
      return 'json'
    case 'application/x-www-form-urlencoded':
      return 'form'
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

async function givenInBody(request: RestRequest, name: string, execute: Execute): Promise<Given> {
  const { raw, pairs } = request
  const format = argumentsFormat(mediaTypeOf(raw.headers['content-type']))
  const body = await readBody(raw, maxBodyBytes)
  if (body.length > quickBytes) await admitCall(request, name, execute)
  const common = { texts: new Map<string, string[]>(), variadic: new Set<string>(), pairs }
  switch (format) {
    case 'json': {
      const json = body.length === 0 ? noArguments : jsonIn(body)
      const { kind, rows } = await inSlices(scanJson(json, { anyElement: true }))
      const names = kind === 'object' ? rows.names : []
      return { ...common, names, wholeBody: ['json', 'jsonb'], body: json }
    }
    case 'form': {
      const { json, values } = await inSlices(formRow(body))
      return { ...common, names: [...values.keys()], wholeBody: [], body: json }
    }
    case 'bytea':
      return { ...common, names: [], wholeBody: ['bytea'], body: await inSlices(byteaText(body)) }
    default:
      if (!isUtf8(body) || body.includes(0)) throw badBody('The body is not a text')
      return { ...common, names: [], wholeBody: [format], body }
  }
}

const noArguments = Buffer.from('{}')

/** Bytes as Postgres reads them. */
function* byteaText(bytes: Buffer): Sliced<Buffer> {
  const text = Buffer.allocUnsafe(2 + bytes.length * 2)
  text.write('\\x')
  for (let at = 0; at < bytes.length; at += sliceBytes) {
    if (at > 0) yield
    text.write(bytes.toString('hex', at, at + sliceBytes), 2 + at * 2, 'latin1')
  }
  return text
}

function prepareCall(
  catalog: Catalog,
  request: RestRequest,
  name: string,
  given: Given,
  { parts, values }: Scanned,
  isCounted: boolean,
  maxRows: number,
): PreparedCall {
  const { accepted, preferences, schema, isHead } = request
  const { routine, takesBody } = findRoutine(catalog, schema, name, given.names, given.wholeBody)
  if (preferences.maxAffected !== undefined && !routine.isSet)
    throw new Refusal('PGRST128', 'Function must return SETOF or TABLE when max-affected preference is used')
  const level = routine.returns === 'row' ? planLevel(catalog, sourceOfRoutine(routine), parts) : undefined
  if (!level && parts.some(part => part.kind === 'condition' || part.kind === 'order'))
    throw new Refusal('PGRST100', `"${name}" returns no rows with columns to filter or order by`)
  if (accepted.form.kind === 'geojson') needGeometry(catalog)
  const isCapped = level !== undefined && routine.isSet && cap(level, maxRows)
  const sql = callSql(catalog, routine, level, argumentsOf(routine, given, takesBody, values.length), {
    form: formOf(routine, isHead, accepted.form),
    isCounted: isCounted && routine.isSet,
    isCapped: isCapped && request.raw.headers.range === undefined,
    mostRows: preferences.maxAffected,
  })
  return {
    // What a volatile function leaves behind is cleaned up before anybody else is served.
    ...preparedFrom(sql, !routine.isVolatile, accepted.explain),
    version: catalog.version,
    routine,
    offset: level?.offset,
  }
}

/** A function that returns one row answers with an object, whatever was asked for. */
function formOf({ returns, isSet }: Routine, isHead: boolean, form: Form): Form {
  if (isHead) return { kind: 'none' }
  if (returns === 'row' && !isSet && form.kind === 'array') return { ...form, kind: 'object' }
  return form
}

function argumentsOf(
  { parameters }: Routine,
  { names, texts }: Given,
  takesBody: boolean,
  firstSlot: number,
): Arguments {
  if (takesBody) return { kind: 'body', type: parameters[0]!.type }
  const byName = new Map(parameters.map(parameter => [parameter.name, parameter]))
  if (texts.size === 0) return { kind: 'object', given: names.map(name => byName.get(name)!) }
  return {
    kind: 'values',
    given: [...texts.keys()].map((name, index) => ({
      parameter: byName.get(name) as Parameter,
      slot: firstSlot + index,
    })),
  }
}
