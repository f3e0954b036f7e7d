// The engines in use: one for each project, role and exposed schema, valid for one version of the catalogue. Those of
// small schemas run here, those of large ones in threads.
import type { ErrorCode } from '@plinth/contract/errors.ts'
import type { Role } from '@plinth/contract/route.ts'
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import { arrayLiteral } from '#src/kernel/postgres/array-literal.ts'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import { inSlices } from '#src/kernel/slices.ts'
import type { Catalog } from '#src/query/catalog.ts'
import { catalogQuery } from '#src/query/catalog-query.ts'
import { type Reflection, reflectionFrom } from '#src/query/reflection.ts'
import { reflectionQuery } from '#src/query/reflection-query.ts'
import { type CallerStatement, type Databases, statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { platformCaller, readOnlyFacts } from '#src/tenancy/platform-caller.ts'
import { DocumentProblem } from './compile/problem.ts'
import {
  createEngine,
  type DocumentRequest,
  type EngineOptions,
  type PlannedRequest,
  schemaChanges,
} from './engine.ts'
import type { Limits } from './limits.ts'
import { Recent } from './recent.ts'
import { createThreads, UnknownEngine } from './threads.ts'

export interface RoleEngine {
  /** Refuses a request that waits for a thread when its client goes. */
  plan(request: DocumentRequest, signal: AbortSignal): PlannedRequest | Promise<PlannedRequest>
  print(): string | Promise<string>
}

export interface Engines {
  of(tenant: Tenant, catalog: Catalog, role: Role, schema: string): RoleEngine | Promise<RoleEngine>
  close(): Promise<void>
}

/** Building a schema of this size takes about ten milliseconds. */
const maxSizeHere = 800
const threadCount = 2
/** Each may take up to ten megabytes with its documents and plans. */
const maxEngines = 100
/** How often an engine is opened for one request. Engines of other projects may replace it before the request runs. */
const maxOpens = 3
/** A schema that is too large for a thread is not tried again so long, because each try delays other projects. */
const refusedMs = 60_000

const readReflection = statement(reflectionQuery, false)
const readCatalog = statement(catalogQuery, false)

export function openEngines(databases: Databases, limits: Limits, mostRows: number): Engines {
  const threads = createThreads({ count: threadCount })
  const known = new Recent<Promise<RoleEngine> | RoleEngine>(maxEngines)
  // A version alone does not identify a catalogue: that of a restored database may have the same one.
  const catalogIds = new WeakMap<Catalog, number>()
  let lastCatalogId = 0
  const reflections = new WeakMap<Catalog, Promise<Reflection>>()

  function idOf(catalog: Catalog): number {
    const id = catalogIds.get(catalog) ?? ++lastCatalogId
    catalogIds.set(catalog, id)
    return id
  }

  async function read(tenant: Tenant, query: CallerStatement): Promise<readonly (readonly Cell[])[]> {
    const schemas = arrayLiteral(tenant.exposedSchemas)
    const { rows } = await databases.asCaller(platformCaller(tenant), readOnlyFacts, query, [schemas])
    return rows
  }

  function reflectionOf(tenant: Tenant, catalog: Catalog): Promise<Reflection> {
    const found = reflections.get(catalog)
    if (found) return found
    const reading = read(tenant, readReflection).then(rows => inSlices(reflectionFrom(rows)))
    reflections.set(catalog, reading)
    reading.catch(() => reflections.delete(catalog))
    return reading
  }

  /** `size` is without what only the reflection has. */
  async function openHere(
    tenant: Tenant,
    catalog: Catalog,
    options: EngineOptions,
    size: number,
  ): Promise<RoleEngine> {
    const reflection = await reflectionOf(tenant, catalog)
    if (reflection.version !== catalog.version) throw new DocumentProblem(schemaChanges)
    if (size + reflectedSize(catalog, reflection, options.schema) > maxSizeHere)
      return openInThread(tenant, catalog, options)
    try {
      const engine = createEngine(catalog, reflection, options)
      return { plan: request => inSlices(engine.plan(request)), print: engine.print }
    } catch (error) {
      // The next request reads the version again, so that a project whose schema is corrected works again.
      reflections.delete(catalog)
      throw error
    }
  }

  async function openInThread(tenant: Tenant, catalog: Catalog, options: EngineOptions): Promise<RoleEngine> {
    const { version } = catalog
    const engine = `${tenant.id} ${options.role} ${options.schema} ${version}`
    let opening: Promise<void> | undefined
    const readAndOpen = async () => {
      const [catalogRows, reflectionRows] = [
        await read(tenant, readCatalog),
        await read(tenant, readReflection),
      ]
      await threads.ask(tenant.id, {
        kind: 'open',
        engine,
        catalog: linesOf(catalogRows),
        reflection: linesOf(reflectionRows),
        version,
        schemas: tenant.exposedSchemas,
        options,
      })
    }
    /** Once for all requests that wait for it. */
    const open = () => {
      opening ??= readAndOpen().finally(() => {
        opening = undefined
      })
      return opening
    }
    const ask = async (
      message: { kind: 'plan'; request: DocumentRequest } | { kind: 'print' },
      signal?: AbortSignal,
    ) => {
      for (let opens = 0; ; opens++) {
        try {
          return await threads.ask(tenant.id, { ...message, engine }, signal)
        } catch (error) {
          if (!(error instanceof UnknownEngine)) throw error
          if (opens === maxOpens)
            throw retryLater('pool_exhausted', 'Too many projects with large GraphQL schemas are in use', 5)
          await open()
        }
      }
    }
    await open()
    return {
      plan: (request, signal) => ask({ kind: 'plan', request }, signal) as Promise<PlannedRequest>,
      print: () => ask({ kind: 'print' }) as Promise<string>,
    }
  }

  function open(tenant: Tenant, catalog: Catalog, options: EngineOptions): Promise<RoleEngine> {
    const size = sizeOf(catalog, options.schema)
    const isSmall = size <= maxSizeHere
    return isSmall ? openHere(tenant, catalog, options, size) : openInThread(tenant, catalog, options)
  }

  return {
    of(tenant, catalog, role, schema) {
      const key = `${idOf(catalog)} ${role} ${schema}`
      const found = known.get(key)
      if (found) return found
      const opening = open(tenant, catalog, { schema, role, limits, mostRows })
      known.set(key, opening)
      opening.then(
        engine => known.set(key, engine),
        error => {
          if (!isTooLarge(error)) known.delete(key)
          else setTimeout(() => known.delete(key), refusedMs).unref()
        },
      )
      return opening
    },
    close: () => threads.close(),
  }
}

const isTooLarge = (error: unknown): boolean =>
  error instanceof Refusal && error.code === ('schema_too_large' satisfies ErrorCode)

/** A table has about twenty types and fields of its own, besides those of its columns. */
const tableSize = 20

/** How much a schema has to be built from, in columns. */
export function sizeOf(catalog: Catalog, schema: string): number {
  let size = 0
  for (const name of catalog.relationNames(schema)) {
    const { columns, relationships } = catalog.relation(schema, name)!
    size += tableSize + columns.size + relationships.length
    if (size > maxSizeHere) return size
  }
  for (const name of catalog.functionNames(schema))
    for (const { parameters } of catalog.functions(schema, name)) size += 1 + parameters.length
  return size
}

/** Characters of comments that take as long to read as a column takes to build. */
const commentLength = 200

/** Labels of enums, and comments of tables and columns. */
export function reflectedSize(catalog: Catalog, reflection: Reflection, schema: string): number {
  let size = 0
  for (const { labels } of reflection.enums.values()) size += labels.length
  for (const name of catalog.relationNames(schema)) {
    const reflected = reflection.relations.get(catalog.relation(schema, name)!.oid)
    const comments = [reflected, ...(reflected?.columns.values() ?? [])].map(
      each => each?.comment?.length ?? 0,
    )
    size += comments.reduce((sum, length) => sum + length, 0) / commentLength
  }
  return size
}

const [tab, newline] = [Buffer.from('\t'), Buffer.from('\n')]

/** Each row as a line: the kind of the fact, a tab and its JSON text, which has neither. */
const linesOf = (rows: readonly (readonly Cell[])[]): Uint8Array =>
  Buffer.concat(rows.flatMap(([kind, value]) => [kind!, tab, value!, newline]))
