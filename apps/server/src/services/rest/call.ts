// GET, HEAD and POST on a function.
import { isUtf8 } from 'node:buffer'
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import type { RawReply } from '#src/kernel/http/request.ts'
import { arrayLiteral } from '#src/kernel/postgres/array-literal.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import { answerFrom, type Form } from '#src/query/answer-sql.ts'
import { type Arguments, callSql } from '#src/query/call-sql.ts'
import type { Catalog, Parameter, Routine } from '#src/query/catalog.ts'
import { type Level, sourceOfRoutine } from '#src/query/level.ts'
import { planRows } from '#src/query/plan.ts'
import { type PlannedStatement, plannedStatement } from '#src/query/planned-statement.ts'
import { findRoutine } from '#src/query/routine.ts'
import { capRows } from '#src/query/row-cap.ts'
import type { Run } from '#src/query/run.ts'
import { admitCall, quickBytes } from './admission.ts'
import { badBody } from './bad-body.ts'
import { formRow } from './form.ts'
import { nothingFound, readOperation } from './grammar/filter.ts'
import { rowsQuery } from './grammar/rows-query.ts'
import { type Pair, type Scanned, scan } from './grammar/scan.ts'
import { scanJson, sliceBytes } from './json-scan.ts'
import { jsonIn, maxBodyBytes, mediaTypeOf } from './payload.ts'
import { needGeometry, withRange } from './read.ts'
import { contentRange, planReply, reply, responseIn, responseSettings, textOf } from './reply.ts'
import type { RestRequest } from './request.ts'

interface PlannedCall extends PlannedStatement {
  readonly version: number
  readonly routine: Routine
  readonly offset: number | undefined
}

/** The arguments as sent, before the function is known. */
interface Given {
  readonly names: readonly string[]
  /** With these types, a single unnamed parameter receives the whole body. */
  readonly wholeTypes: readonly string[]
  readonly body: Value
  /** The arguments of a GET by name. */
  readonly texts: ReadonlyMap<string, readonly string[]>
  /** Names of variadic parameters. */
  readonly variadic: ReadonlySet<string>
  /** Query parameters that are not arguments. */
  readonly pairs: readonly Pair[]
}

const appliedPreferences = ['return', 'count', 'tx', 'handling', 'timezone', 'max-affected']

export async function call(
  request: RestRequest,
  name: string,
  run: Run,
  catalogNow: () => Promise<Catalog> | Catalog,
  maxRows: number,
): Promise<RawReply> {
  // exec_sql has its own route for POST.
  if (name === 'exec_sql') throw new Refusal('PGRST101', 'exec_sql is called by POST')
  const { schema, accepted, preferences, isHead } = request
  const catalog = request.isRead ? await catalogNow() : undefined
  const given = catalog
    ? givenInQuery(request.pairs, catalog.functions(schema, name))
    : await givenInBody(request, name, run)
  const scanned = scan(request.isRead ? withRange(given.pairs, request.raw) : given.pairs)
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
    given.wholeTypes.join(),
    ...given.names,
  ].join('\0')
  const { plan, rows } = await run(
    request,
    shape + scanned.shape,
    catalog => planCall(catalog, request, name, given, scanned, isCounted, maxRows),
    [...scanned.values, ...argumentValues, given.body],
  )
  // The arguments were chosen by an older schema than the one that ran. A GET writes nothing, so it can run again.
  if (catalog && plan.version !== catalog.version) return call(request, name, run, catalogNow, maxRows)
  if (accepted.explain) return planReply(request, rows)

  const { routine } = plan
  const { text, count, total, settings } = answerFrom(rows[0]!)
  const response = responseIn(settings)
  const offset = plan.offset === undefined ? 0 : Number(scanned.values[plan.offset])
  const isMinimal = routine.returns === 'void' || preferences.sent.get('return') === 'minimal'
  return reply(request, {
    status: response.status ?? (isMinimal ? 204 : 200),
    range: contentRange(offset, count, total),
    appliedPreferences,
    body: isHead || isMinimal ? null : textOf(text ?? Buffer.from('null')),
    headers: response.headers,
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
  return { names: [...texts.keys()], wholeTypes: [], body: null, texts, variadic, pairs: others }
}

const modifiers = /^(?:.*\.)?(?:select|order|limit|offset|and|or|columns|on_conflict)$/

const isModifier = ({ key, value }: Pair): boolean =>
  modifiers.test(key) || readOperation(value, nothingFound()) !== undefined

/** The format of the arguments. Refuses a media type that no function takes before the body is read. */
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

async function givenInBody(request: RestRequest, name: string, run: Run): Promise<Given> {
  const { raw, pairs } = request
  const format = argumentsFormat(mediaTypeOf(raw.headers['content-type']))
  const body = await readBody(raw, maxBodyBytes)
  if (body.length > quickBytes) await admitCall(request, name, run)
  const common = { texts: new Map<string, string[]>(), variadic: new Set<string>(), pairs }
  switch (format) {
    case 'json': {
      const json = body.length === 0 ? noArguments : jsonIn(body)
      const { kind, rows } = await inSlices(scanJson(json, { anyElement: true }))
      const names = kind === 'object' ? rows.names : []
      return { ...common, names, wholeTypes: ['json', 'jsonb'], body: json }
    }
    case 'form': {
      const { json, values } = await inSlices(formRow(body))
      return { ...common, names: [...values.keys()], wholeTypes: [], body: json }
    }
    case 'bytea':
      return { ...common, names: [], wholeTypes: ['bytea'], body: await inSlices(byteaText(body)) }
    default:
      if (!isUtf8(body) || body.includes(0)) throw badBody('The body is not a text')
      return { ...common, names: [], wholeTypes: [format], body }
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

function planCall(
  catalog: Catalog,
  request: RestRequest,
  name: string,
  given: Given,
  { parameters, values }: Scanned,
  isCounted: boolean,
  maxRows: number,
): PlannedCall {
  const { accepted, preferences, schema, isHead } = request
  const { routine, takesWhole } = findRoutine(catalog, schema, name, given.names, given.wholeTypes)
  if (preferences.maxAffected !== undefined && !routine.isSet)
    throw new Refusal('PGRST128', 'Function must return SETOF or TABLE when max-affected preference is used')
  const page = routine.returns === 'row' ? planPage(catalog, routine, parameters, maxRows) : undefined
  if (!page && parameters.some(({ kind }) => kind === 'condition' || kind === 'order'))
    throw new Refusal('PGRST100', `"${name}" returns no rows with columns to filter or order by`)
  if (accepted.form.kind === 'geojson') needGeometry(catalog)
  const sql = callSql(catalog, routine, page?.level, argumentsOf(routine, given, takesWhole, values.length), {
    form: formOf(routine, isHead, accepted.form),
    isCounted: isCounted && routine.isSet,
    isCapped: (page?.isCapped ?? false) && request.raw.headers.range === undefined,
    maxRows: preferences.maxAffected,
    settings: responseSettings,
  })
  return {
    // A volatile function may change the session, which must be reset before the next caller uses it.
    ...plannedStatement(sql, !routine.isVolatile, accepted.explain),
    version: catalog.version,
    routine,
    offset: page?.level.offset,
  }
}

function planPage(
  catalog: Catalog,
  routine: Routine,
  parameters: Scanned['parameters'],
  maxRows: number,
): { level: Level; isCapped: boolean } {
  const level = planRows(catalog, sourceOfRoutine(routine), rowsQuery(parameters))
  return routine.isSet ? capRows(level, maxRows) : { level, isCapped: false }
}

/** A function that returns one row answers with an object, not an array. */
function formOf({ returns, isSet }: Routine, isHead: boolean, form: Form): Form {
  if (isHead) return { kind: 'none' }
  if (returns === 'row' && !isSet && form.kind === 'array') return { ...form, kind: 'object' }
  return form
}

function argumentsOf(
  { parameters }: Routine,
  { names, texts }: Given,
  takesWhole: boolean,
  firstSlot: number,
): Arguments {
  const bodySlot = firstSlot + texts.size
  if (takesWhole) return { kind: 'whole', type: parameters[0]!.type, slot: bodySlot }
  const byName = new Map(parameters.map(parameter => [parameter.name, parameter]))
  if (texts.size === 0) return { kind: 'object', given: names.map(name => byName.get(name)!), slot: bodySlot }
  return {
    kind: 'values',
    given: [...texts.keys()].map((name, index) => ({
      parameter: byName.get(name) as Parameter,
      slot: firstSlot + index,
    })),
  }
}
