// The row API of one project as OpenAPI 3.1: a path per table, view and function that the reader can reach.
import type { Sliced } from '#src/kernel/slices.ts'
import {
  type Column,
  type Description,
  inputs,
  isCallable,
  outputs,
  type Relation,
  type Routine,
} from '#src/query/description.ts'
import { createSchemaWriter, type Json, type SchemaWriter } from './json-schema.ts'
import {
  errorAnswer,
  filterParameter,
  parameters,
  reservedParameters,
  securitySchemes,
} from './shared-parts.ts'

/** Without a credential the document shows what anon may use; with one it shows everything. */
export type Audience = 'anon' | 'all'

export interface Subject {
  projectId: string
  baseUrl: string
  audience: Audience
  /** The schemas to show. */
  schemas: readonly string[]
  /** The schema that requests use without a profile header. */
  defaultSchema: string | undefined
}

/** Columns and parameters described in one slice. */
export const describedAtOnce = 200

/** Built in slices, because a project may have thousands of tables and the route is open. */
export function* projectDocument(description: Description, subject: Subject): Sliced<Json> {
  const writer = createSchemaWriter(description)
  const names = componentNames(description.relations)
  const places = new Map<string, Reachable>()
  let described = 0
  for (const relation of description.relations) {
    const each = reachable(relation, subject.audience)
    if (each.verbs.length > 0) places.set(placeOf(each.schema, each.name), each)
    described += relation.columns.length
    if (described < describedAtOnce) continue
    described = 0
    yield
  }
  const relations = [...places.values()]
  const paths: Record<string, Json> = {}
  const schemas: Record<string, Json> = { Error: errorAnswer.schema }
  // Names of the default schema have priority. A name that exists in several schemas is listed with ?schema= only.
  const inOrder = <T extends { schema: string }>(all: readonly T[]) =>
    subject.schemas.flatMap(schema => all.filter(each => each.schema === schema))
  for (const each of inOrder(relations)) {
    const path = `/v1/rest/${subject.projectId}/${encodeURIComponent(each.name)}`
    schemas[names.get(each.relation)!] = yield* rowSchema(each, places, writer, subject)
    paths[path] ??= relationPath(each, names.get(each.relation)!, subject)
    described += each.relation.columns.length
    if (described < describedAtOnce) continue
    described = 0
    yield
  }
  const routines = description.functions.filter(
    each => isCallable(each) && (subject.audience === 'all' || each.anonMayCall),
  )
  for (const overloads of Map.groupBy(
    inOrder(routines),
    ({ schema, name }) => `${schema}\0${name}`,
  ).values()) {
    const path = `/v1/rest/${subject.projectId}/rpc/${encodeURIComponent(overloads[0]!.name)}`
    paths[path] ??= routinePath(overloads, writer, subject)
    yield
  }
  return {
    openapi: '3.1.0',
    info: {
      title: `Project ${subject.projectId}`,
      version: '1',
      description: `${
        subject.audience === 'all'
          ? 'Every table, view and function of the exposed schemas.'
          : 'What the anon key may reach. Row-level security decides on the rows.'
      } The same over GraphQL: POST /v1/graphql/${subject.projectId}.`,
    },
    servers: [{ url: subject.baseUrl }],
    security: [{ apikey: [] }, { apikey: [], bearer: [] }],
    tags: [...new Set(inOrder([...relations, ...routines]).map(({ schema }) => schema))].map(name => ({
      name,
    })),
    paths,
    components: { securitySchemes, parameters, schemas, responses: { Error: errorAnswer.response } },
  }
}

type Verb = 'get' | 'post' | 'patch' | 'delete'

interface Reachable {
  relation: Relation
  schema: string
  name: string
  verbs: Verb[]
  readable: Column[]
  insertable: Column[]
  updatable: Column[]
  /** Names of the readable columns. */
  shown: ReadonlySet<string>
}

const placeOf = (schema: string, name: string) => `${schema}\0${name}`

function reachable(relation: Relation, audience: Audience): Reachable {
  const isOpen = audience === 'all'
  const mayUse = isOpen || relation.anonMayUse
  const takes = ({ isGenerated, identity, isUpdatable }: Column) =>
    !isGenerated && identity !== 'always' && (relation.kind === 'table' || isUpdatable)
  const readable = relation.columns.filter(({ anon }) => isOpen || anon.select)
  const insertable = relation.columns.filter(each => (isOpen || each.anon.insert) && takes(each))
  const updatable = relation.columns.filter(each => (isOpen || each.anon.update) && takes(each))
  const verbs: Verb[] = []
  if (mayUse) {
    if (readable.length > 0) verbs.push('get')
    if (relation.isInsertable && insertable.length > 0) verbs.push('post')
    if (relation.isUpdatable && updatable.length > 0) verbs.push('patch')
    if (relation.isDeletable && (isOpen || relation.anonMayDelete)) verbs.push('delete')
  }
  return {
    relation,
    schema: relation.schema,
    name: relation.name,
    verbs,
    readable,
    insertable,
    updatable,
    shown: new Set(readable.map(({ name }) => name)),
  }
}

/** Without a credential, columns and relations that anon cannot read or write are omitted. */
function* rowSchema(
  each: Reachable,
  all: ReadonlyMap<string, Reachable>,
  { columnSchema }: SchemaWriter,
  { audience }: Subject,
): Sliced<Json> {
  const { relation, readable, insertable } = each
  const used = new Set([...readable, ...insertable])
  const shows = ({ shown }: Reachable, columns: readonly string[]) => columns.every(name => shown.has(name))
  const properties: [string, Json][] = []
  for (const column of relation.columns) {
    if (!used.has(column)) continue
    properties.push([column.name, columnSchema(audience === 'all' ? column : { ...column, default: null })])
    if (properties.length % describedAtOnce === 0) yield
  }
  const required = insertable.filter(
    ({ isNullable, default: value, identity }) => !isNullable && value === null && identity === null,
  )
  const relationships = relation.relationships.filter(({ columns, referencedColumns, ...to }) => {
    const target = all.get(placeOf(to.referencedSchema, to.referencedRelation))
    return target && shows(each, columns) && shows(target, referencedColumns)
  })
  const { primaryKey } = relation
  return {
    type: 'object',
    ...(relation.comment !== null && { description: relation.comment }),
    properties: Object.fromEntries(properties),
    ...(relation.kind === 'table' &&
      required.length > 0 && { 'x-required-on-insert': required.map(({ name }) => name) }),
    ...(primaryKey && shows(each, primaryKey.columns) && { 'x-primary-key': primaryKey.columns }),
    ...(relationships.length > 0 && {
      'x-relationships': relationships.map(each => ({
        constraint: each.name,
        columns: each.columns,
        references: `${each.referencedSchema}.${each.referencedRelation}`,
        referencedColumns: each.referencedColumns,
        isOneToOne: each.isOneToOne,
      })),
    }),
  }
}

function relationPath(each: Reachable, component: string, subject: Subject): Json {
  const { relation, verbs, readable } = each
  const row = { $ref: `#/components/schemas/${component}` }
  const rows = { type: 'array', items: row }
  const filters = readable
    .filter(({ name }) => !reservedParameters.has(name))
    .map(({ name, sqlType }) => filterParameter(name, sqlType))
  const operationId = (verb: string) => `${verb}.${relation.schema}.${relation.name}`
  const common = (verb: Verb) => ({
    tags: [relation.schema],
    operationId: operationId(verb),
    summary: `${words[verb]} ${relation.name}`,
    ...(relation.comment !== null && { description: relation.comment }),
  })
  const body = { required: true, content: { 'application/json': { schema: { anyOf: [row, rows] } } } }
  const one = { required: true, content: { 'application/json': { schema: row } } }
  const operations: Record<Verb, Json> = {
    get: {
      ...common('get'),
      parameters: [
        ...shared('select', 'order', 'limit', 'offset', 'or', 'and', 'preferCount', 'range'),
        ...filters,
      ],
      responses: answers({ 200: content('The rows.', rows) }),
    },
    post: {
      ...common('post'),
      parameters: shared('select', 'columns', 'onConflict', 'preferReturn'),
      requestBody: body,
      responses: answers({ 201: content('Created; the rows with `Prefer: return=representation`.', rows) }),
    },
    patch: {
      ...common('patch'),
      description: 'Needs at least one filter on a column.',
      parameters: [...shared('select', 'or', 'and', 'preferReturn'), ...filters],
      requestBody: one,
      responses: answers({
        204: { description: 'Changed.' },
        200: content('The rows that were changed.', rows),
      }),
    },
    delete: {
      ...common('delete'),
      description: 'Needs at least one filter on a column.',
      parameters: [...shared('select', 'or', 'and', 'preferReturn'), ...filters],
      responses: answers({
        204: { description: 'Deleted.' },
        200: content('The rows that were deleted.', rows),
      }),
    },
  }
  return {
    ...profile(relation.schema, subject),
    ...Object.fromEntries(verbs.map(verb => [verb, operations[verb]])),
  }
}

const words: Record<Verb, string> = {
  get: 'Read',
  post: 'Insert into',
  patch: 'Change',
  delete: 'Delete from',
}

function routinePath(overloads: readonly Routine[], writer: SchemaWriter, subject: Subject): Json {
  const [first] = overloads as [Routine, ...Routine[]]
  const comment = overloads.find(each => each.comment !== null)?.comment
  const common = (verb: string) => ({
    tags: [first.schema],
    operationId: `${verb}.${first.schema}.rpc.${first.name}`,
    summary: `Call ${first.name}`,
    ...(comment && { description: comment }),
  })
  const results = overloads.map(each => resultSchema(each, writer))
  const isVoid = results.every(schema => schema === undefined)
  const responses = answers(
    isVoid
      ? { 204: { description: 'Done.' } }
      : { 200: content('What it returns.', anyOf(results.map(each => each ?? {}))) },
  )
  const bodies = overloads.map(each => argumentsSchema(each, writer))
  const isQuiet = overloads.some(each => !each.isVolatile)
  const given = new Map(
    overloads
      .filter(each => !each.isVolatile)
      .flatMap(each => inputs(each).map(parameter => [parameter.name, parameter] as const)),
  )
  const query = [...given.values()]
    .filter(({ name }) => name !== '' && !reservedParameters.has(name))
    .map(({ name, type, hasDefault }) => ({
      name,
      in: 'query',
      required: overloads.length === 1 && !hasDefault,
      schema: writer.typeSchema(type),
    }))
  return {
    ...profile(first.schema, subject),
    post: {
      ...common('post'),
      requestBody: { required: false, content: { 'application/json': { schema: anyOf(bodies) } } },
      responses,
    },
    ...(isQuiet && { get: { ...common('get'), parameters: query, responses } }),
  }
}

function argumentsSchema(routine: Routine, { typeSchema }: SchemaWriter): Json {
  const given = inputs(routine)
  // A single unnamed parameter receives the whole body.
  if (given.length === 1 && given[0]!.name === '') return typeSchema(given[0]!.type)
  const required = given
    .filter(({ hasDefault, mode }) => !hasDefault && mode !== 'variadic')
    .map(({ name }) => name)
  return {
    type: 'object',
    properties: Object.fromEntries(given.map(({ name, type }) => [name, typeSchema(type)])),
    ...(required.length > 0 && { required }),
  }
}

/** Undefined if the function returns void. */
function resultSchema(routine: Routine, { typeSchema }: SchemaWriter): Json | undefined {
  const declared = outputs(routine)
  const one =
    declared.length > 1 || declared.some(({ mode }) => mode === 'table')
      ? {
          type: 'object',
          properties: Object.fromEntries(declared.map(({ name, type }) => [name, typeSchema(type)])),
        }
      : typeSchema(routine.returnType)
  if (routine.returnsSet) return { type: 'array', items: one }
  return Object.keys(one).length === 0 ? undefined : one
}

const anyOf = (schemas: readonly Json[]): Json => (schemas.length === 1 ? schemas[0]! : { anyOf: schemas })

/** Other schemas than the default are selected by a header. */
function profile(schema: string, { defaultSchema }: Subject): Json {
  if (schema === defaultSchema) return {}
  const header = (name: string, when: string) => ({
    name,
    in: 'header',
    required: true,
    description: when,
    schema: { type: 'string', enum: [schema] },
  })
  return {
    parameters: [
      header('Accept-Profile', 'The schema, when reading.'),
      header('Content-Profile', 'The schema, when writing or calling.'),
    ],
  }
}

const shared = (...names: (keyof typeof parameters)[]): Json[] =>
  names.map(name => ({ $ref: `#/components/parameters/${name}` }))

const content = (description: string, schema: Json): Json => ({
  description,
  content: { 'application/json': { schema } },
})

const answers = (good: Record<number, Json>): Json => ({
  ...good,
  default: { $ref: '#/components/responses/Error' },
})

/** OpenAPI allows fewer characters in component names than Postgres in table names. */
function componentNames(relations: readonly Relation[]): Map<Relation, string> {
  const taken = new Set(['Error'])
  /** Next number by name, because thousands of names may differ only in characters that are not allowed. */
  const counts = new Map<string, number>()
  return new Map(
    relations.map(relation => {
      const wanted = `${relation.schema}.${relation.name}`.replace(/[^A-Za-z0-9._-]/g, '_')
      let name = wanted
      let count = counts.get(wanted) ?? 2
      for (; taken.has(name); count++) name = `${wanted}_${count}`
      counts.set(wanted, count)
      taken.add(name)
      return [relation, name]
    }),
  )
}
