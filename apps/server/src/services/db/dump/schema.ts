// Dumps the project's schema as one script, in dependency order.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import { collect, sliceCounter } from './collections.ts'
import { commentLine } from './comment.ts'
import {
  type Definition,
  definitionQueries,
  omitted,
  readCatalogOnly,
  serverVersion,
  type TableColumn,
  tableColumns,
} from './definitions-store.ts'
import { type Dependency, dependencies } from './dependencies-store.ts'
import { inDependencyOrder } from './dependency-order.ts'
import { type Grants, grantStatements } from './grants.ts'
import type { Rights } from './grants-store.ts'
import * as grantsStore from './grants-store.ts'
import { replaceAll } from './text-search.ts'

export interface Schema {
  /** In dependency order. */
  definitions: Definition[]
  needs: Dependency[]
  columns: TableColumn[]
  grants: Grants
  /** Objects that the script cannot create. */
  omitted: string[]
  /** Since Postgres 17, for stored columns. */
  canSetExpression: boolean
}

/** They bound the memory that a schema takes. */
export const limits = { definitions: 50_000, dependencies: 250_000 }
const maxCharacters = 50 * 1024 * 1024

const tooLarge = (what: string) =>
  new Refusal(
    'dump_too_large',
    `The schema has ${what}; read it with pg_dump --schema-only over the direct connection`,
  )

/** Must run in a repeatable-read transaction. */
export async function readSchema(session: Session, most = limits): Promise<Schema> {
  await readCatalogOnly(session)
  const definitions: Definition[] = []
  for (const query of definitionQueries(most.definitions + 1)) {
    for (const definition of await session.rows<Definition>(query)) definitions.push(definition)
    if (definitions.length > most.definitions)
      throw tooLarge(`more than ${most.definitions} tables, columns, functions and the like`)
  }
  const needs = await session.rows<Dependency>(dependencies(most.dependencies + 1))
  if (needs.length > most.dependencies)
    throw tooLarge(`more than ${most.dependencies} dependencies between its objects`)
  const missing = await session.rows<{ what: string }>(omitted(most.definitions + 1))
  if (missing.length > most.definitions)
    throw tooLarge(`more than ${most.definitions} operators, collations and the like`)
  return {
    definitions: await inSlices(inDependencyOrder(definitions, needs)),
    columns: await session.rows<TableColumn>(tableColumns),
    needs,
    grants: {
      objects: await session.rows<grantsStore.ObjectGrants>(grantsStore.objectGrants),
      columns: await session.rows<grantsStore.ColumnGrants>(grantsStore.columnGrants),
      defaults: await session.rows<grantsStore.DefaultGrants>(grantsStore.defaultGrants),
    },
    omitted: missing.map(({ what }) => what),
    canSetExpression: (await session.row<{ version: number }>(serverVersion))!.version >= 170_000,
  }
}

/** Empty if the project has no objects. */
export function* schemaScript({ definitions, grants, omitted }: Schema): Sliced<string[]> {
  const created = yield* collect(definitions, each => (each.isInitial ? [] : [each.sql]))
  return yield* scriptFrom([...created, ...(yield* grantStatements(grants))], omitted)
}

/** Roles of a project begin with its ref. For comparisons they get the names that another project would give them. */
export function* renameRoles(schema: Schema, { from, to }: { from: string; to: string }): Sliced<Schema> {
  const isComplete = sliceCounter()
  const definitions: Definition[] = []
  for (const definition of schema.definitions) {
    const { sql, undo, name } = definition
    if (isComplete(1 + Math.ceil(sql.length / charactersPerUnit))) yield
    definitions.push({
      ...definition,
      name: name.replaceAll(from, to),
      sql: yield* replaceAll(sql, from, to),
      undo: undo.replaceAll(from, to),
    })
  }
  const renamed = (text: string) => text.replaceAll(from, to)
  const inRights = (rights: Rights): Rights =>
    Object.fromEntries(Object.entries(rights).map(([caller, privileges]) => [renamed(caller), privileges]))
  const { objects, columns, defaults } = schema.grants
  return {
    ...schema,
    definitions,
    grants: {
      objects: yield* collect(objects, each => [
        { ...each, actual: inRights(each.actual), expected: inRights(each.expected) },
      ]),
      columns: yield* collect(columns, each => [{ ...each, actual: inRights(each.actual) }]),
      defaults: yield* collect(defaults, each => [{ ...each, caller: renamed(each.caller) }]),
    },
  }
}

/** Renaming so many characters takes about as long as one name. */
const charactersPerUnit = 500

/** Returns the script in chunks. */
export function* scriptFrom(statements: readonly string[], omitted: readonly string[]): Sliced<string[]> {
  if (statements.length === 0 && omitted.length === 0) return []
  // Function bodies may reference objects that are created later.
  const script = ['set check_function_bodies = off;\n']
  const isComplete = sliceCounter()
  let characters = 0
  for (const statement of statements) {
    if (isComplete()) yield
    characters += statement.length
    if (characters > maxCharacters) throw tooLarge(`more than ${maxCharacters / 1024 / 1024} MB as SQL`)
    script.push(`\n${statement};\n`)
  }
  for (const what of omitted) {
    if (isComplete()) yield
    script.push(`\n${commentLine(`Not in here, to be made by hand: ${what}`)}`)
  }
  return script
}
