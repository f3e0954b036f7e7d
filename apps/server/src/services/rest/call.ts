// GET, HEAD and POST on a function.
import { Refusal } from '#src/kernel/errors.ts'
import type { RawReply } from '#src/kernel/http/request.ts'
import { answerFrom, type Form } from '#src/query/answer-sql.ts'
import { type Arguments, callSql } from '#src/query/call-sql.ts'
import type { Catalog, Routine } from '#src/query/catalog.ts'
import { type Level, sourceOfRoutine } from '#src/query/level.ts'
import { planRows } from '#src/query/plan.ts'
import { type PlannedStatement, plannedStatement } from '#src/query/planned-statement.ts'
import { findRoutine } from '#src/query/routine.ts'
import { capRows } from '#src/query/row-cap.ts'
import type { Run, RunResult } from '#src/query/run.ts'
import type { Media } from './accept.ts'
import { type Given, givenInBody, givenInQuery } from './arguments.ts'
import { rowsQuery } from './grammar/rows-query.ts'
import { type Scanned, scan } from './grammar/scan.ts'
import { mediaOfRows, mediaOfValue } from './media.ts'
import { needGeometry, withRange } from './read.ts'
import { bodyOf, contentRange, planReply, reply, responseIn, responseSettings } from './reply.ts'
import type { RestRequest } from './request.ts'

interface PlannedCall extends PlannedStatement {
  readonly version: number
  readonly routine: Routine
  readonly media: Media
  readonly offset: number | undefined
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
  const { given, scanned } = catalog
    ? readQuery(request, catalog.functions(schema, name))
    : await readPost(request, name, run)
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
    given.isArray,
    given.isText,
    JSON.stringify(given.names),
  ].join('\0')
  const running = run(
    request,
    shape + scanned.shape,
    catalog => planCall(catalog, request, name, given, scanned, isCounted, maxRows),
    [...scanned.values, ...given.texts.values(), given.body],
  )
  const ran = catalog ? await unlessOutdated(running, catalog, catalogNow) : await running
  if (!ran) return call(request, name, run, catalogNow, maxRows)
  const { plan, rows } = ran
  if (accepted.explain) return planReply(plan.media, rows)

  const { routine, media } = plan
  const { text, count, total, settings } = answerFrom(rows[0]!)
  const response = responseIn(settings)
  const offset = plan.offset === undefined ? 0 : Number(scanned.values[plan.offset])
  const isMinimal = routine.returns === 'void' || preferences.sent.get('return') === 'minimal'
  return reply(request, {
    status: response.status ?? (isMinimal ? 204 : 200),
    range: contentRange(offset, count, total),
    appliedPreferences,
    media,
    body: isHead || isMinimal ? null : await bodyOf(text ?? nothingIn(media), media),
    headers: response.headers,
  })
}

/**
 * Undefined if the arguments were chosen by an older schema than the one that ran, also if they then caused an error. A GET
 * writes nothing, so it can run again.
 */
async function unlessOutdated(
  running: Promise<RunResult<PlannedCall>>,
  { version }: Catalog,
  catalogNow: () => Promise<Catalog> | Catalog,
): Promise<RunResult<PlannedCall> | undefined> {
  try {
    const ran = await running
    return ran.plan.version === version ? ran : undefined
  } catch (error) {
    if ((await catalogNow()).version === version) throw error
    return
  }
}

const nothingIn = ({ form }: Media): Buffer =>
  Buffer.from(form.kind === 'value' || form.kind === 'handled' ? '' : 'null')

function readQuery(request: RestRequest, overloads: readonly Routine[]): { given: Given; scanned: Scanned } {
  const { given, others } = givenInQuery(request.pairs, overloads)
  return { given, scanned: scan(withRange(others, request.raw)) }
}

async function readPost(
  request: RestRequest,
  name: string,
  run: Run,
): Promise<{ given: Given; scanned: Scanned }> {
  const scanned = scan(request.pairs)
  return { given: await givenInBody(request, name, scanned, run), scanned }
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
  if (routine.returns !== 'row' && parameters.some(({ kind }) => kind === 'condition' || kind === 'order'))
    throw new Refusal('PGRST100', `"${name}" returns no rows with columns to filter or order by`)
  const rows =
    routine.returns === 'row' ? planPage(catalog, routine, parameters, accepted, maxRows) : undefined
  const media = rows?.media ?? mediaOfValue(catalog, routine, accepted)
  if (media.form.kind === 'geojson') needGeometry(catalog)
  const args = argumentsOf(routine, given, takesWhole, values.length)
  const sql = callSql(catalog, routine, rows?.level, args, {
    form: formOf(routine, isHead, media.form),
    isCounted,
    isCapped: (rows?.isCapped ?? false) && request.raw.headers.range === undefined,
    maxRows: preferences.maxAffected,
    settings: responseSettings,
  })
  return {
    // A volatile function may change the session, which must be reset before the next caller uses it.
    ...plannedStatement(sql, !routine.isVolatile, accepted.explain),
    version: catalog.version,
    routine,
    media,
    offset: rows?.level.offset,
  }
}

function planPage(
  catalog: Catalog,
  routine: Routine,
  parameters: Scanned['parameters'],
  accepted: RestRequest['accepted'],
  maxRows: number,
): { level: Level; isCapped: boolean; media: Media } {
  const query = rowsQuery(parameters)
  const media = mediaOfRows(catalog, routine.relation, query, accepted)
  const format = media.form.kind === 'csv' ? 'text' : 'json'
  const level = planRows(catalog, sourceOfRoutine(routine), query, format)
  return { ...(routine.isSet ? capRows(level, maxRows) : { level, isCapped: false }), media }
}

/** A function that returns one row answers with an object, not an array. */
function formOf({ returns, isSet }: Routine, isHead: boolean, form: Form): Form {
  if (isHead) return { kind: 'none' }
  if (returns === 'row' && !isSet && form.kind === 'array') return { ...form, kind: 'object' }
  return form
}

function argumentsOf(
  { parameters }: Routine,
  { names, texts, isArray, isText }: Given,
  takesWhole: boolean,
  firstSlot: number,
): Arguments {
  const slot = firstSlot + texts.size
  if (takesWhole) return { kind: 'whole', type: parameters[0]!.type, slot }
  // Of unnamed parameters, the first one is given.
  const byName = new Map(parameters.toReversed().map(parameter => [parameter.name, parameter]))
  const given = names.map(name => byName.get(name)!)
  if (texts.size === 0) return { kind: 'named', given, isArray, isText, slot }
  return {
    kind: 'values',
    given: given.map((parameter, index) => ({ parameter, slot: firstSlot + index })),
  }
}
