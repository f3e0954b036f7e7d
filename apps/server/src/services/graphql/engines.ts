// The engines in use: one for each project, role and exposed schema, valid for one version of the catalogue. Those of
// small schemas run here, those of large ones in threads.
import type { Role } from '@plinth/contract/route.ts'
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
import { createEngine, type DocumentRequest, type EngineOptions, type PlannedRequest } from './engine.ts'
import type { Limits } from './limits.ts'
import { createThreads, UnknownEngine } from './threads.ts'

export interface RoleEngine {
  plan(request: DocumentRequest): PlannedRequest | Promise<PlannedRequest>
  print(): string | Promise<string>
}

export interface Engines {
  of(tenant: Tenant, catalog: Catalog, role: Role, schema: string): RoleEngine | Promise<RoleEngine>
  close(): Promise<void>
}

/** Building a schema takes about half a millisecond per table, and an answer about all of it twice as long. */
const maxTablesHere = 20
const threadCount = 2

const readReflection = statement(reflectionQuery, false)
const readCatalog = statement(catalogQuery, false)

export function openEngines(databases: Databases, limits: Limits, mostRows: number): Engines {
  const threads = createThreads(threadCount)
  // An engine is dropped together with its catalogue, when the schema has changed or the project is idle.
  const known = new WeakMap<Catalog, Map<string, Promise<RoleEngine> | RoleEngine>>()
  const reflections = new WeakMap<Catalog, Promise<Reflection>>()

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

  async function openHere(tenant: Tenant, catalog: Catalog, options: EngineOptions): Promise<RoleEngine> {
    const reflection = await reflectionOf(tenant, catalog)
    // The schema changed between the two reads, so that the catalogue is outdated.
    if (reflection.version !== catalog.version) throw new DocumentProblem('The schema is changing: try again')
    return createEngine(catalog, reflection, options)
  }

  async function openInThread(tenant: Tenant, catalog: Catalog, options: EngineOptions): Promise<RoleEngine> {
    const engine = `${tenant.id} ${options.role} ${options.schema} ${catalog.version}`
    const open = async () => {
      const [catalogRows, reflectionRows] = [
        await read(tenant, readCatalog),
        await read(tenant, readReflection),
      ]
      await threads.ask(tenant.id, {
        kind: 'open',
        engine,
        catalog: linesOf(catalogRows),
        reflection: linesOf(reflectionRows),
        schemas: tenant.exposedSchemas,
        options,
      })
    }
    const ask = async (message: { kind: 'plan'; request: DocumentRequest } | { kind: 'print' }) => {
      try {
        return await threads.ask(tenant.id, { ...message, engine })
      } catch (error) {
        if (!(error instanceof UnknownEngine)) throw error
        await open()
        return threads.ask(tenant.id, { ...message, engine })
      }
    }
    await open()
    return {
      plan: request => ask({ kind: 'plan', request }) as Promise<PlannedRequest>,
      print: () => ask({ kind: 'print' }) as Promise<string>,
    }
  }

  function open(tenant: Tenant, catalog: Catalog, options: EngineOptions): Promise<RoleEngine> {
    const isSmall = catalog.relationNames(options.schema).length <= maxTablesHere
    return isSmall ? openHere(tenant, catalog, options) : openInThread(tenant, catalog, options)
  }

  return {
    of(tenant, catalog, role, schema) {
      let own = known.get(catalog)
      if (!own) {
        own = new Map()
        known.set(catalog, own)
      }
      const key = `${role} ${schema}`
      const found = own.get(key)
      if (found) return found
      const opening = open(tenant, catalog, { schema, role, limits, mostRows })
      const engines = own
      engines.set(key, opening)
      opening.then(
        engine => engines.set(key, engine),
        () => engines.delete(key),
      )
      return opening
    },
    close: () => threads.close(),
  }
}

const [tab, newline] = [Buffer.from('\t'), Buffer.from('\n')]

/** Each row as a line: the kind of the fact, a tab and its JSON text, which has neither. */
const linesOf = (rows: readonly (readonly Cell[])[]): Uint8Array =>
  Buffer.concat(rows.flatMap(([kind, value]) => [kind!, tab, value!, newline]))
