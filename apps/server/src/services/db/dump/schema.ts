// Dumps the project's schema as one script, in dependency order.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import type { Sliced } from '#src/kernel/slices.ts'
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
import { type Grants, grantStatements } from './grants.ts'
import type { Rights } from './grants-store.ts'
import * as grantsStore from './grants-store.ts'

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

/** Bounds synchronous steps over all objects to a few milliseconds. */
const maxDefinitions = 50_000
const maxCharacters = 50 * 1024 * 1024

const tooLarge = (what: string) =>
  new Refusal(
    'dump_too_large',
    `The schema has ${what}; read it with pg_dump --schema-only over the direct connection`,
  )

/** Must run in a repeatable-read transaction. */
export async function readSchema(session: Session): Promise<Schema> {
  await readCatalogOnly(session)
  const definitions: Definition[] = []
  for (const query of definitionQueries) {
    for (const definition of await session.rows<Definition>(query)) definitions.push(definition)
    if (definitions.length > maxDefinitions)
      throw tooLarge(`more than ${maxDefinitions} tables, columns, functions and the like`)
  }
  const needs = await session.rows<Dependency>(dependencies)
  const missing = await session.rows<{ what: string }>(omitted)
  return {
    definitions: inDependencyOrder(definitions, needs),
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
export const schemaScript = ({ definitions, grants, omitted }: Schema): string[] =>
  scriptFrom(
    [...definitions.filter(each => !each.isInitial).map(each => each.sql), ...grantStatements(grants)],
    omitted,
  )

/** Definitions in one slice. */
export const sliceSize = 200

/** Roles of a project begin with its ref. For comparisons they get the names that another project would give them. */
export function* renameRoles(schema: Schema, { from, to }: { from: string; to: string }): Sliced<Schema> {
  const renamed = (text: string) => text.replaceAll(from, to)
  const definitions: Definition[] = []
  for (const definition of schema.definitions) {
    if (definitions.length % sliceSize === 0) yield
    const { sql, undo, name } = definition
    definitions.push({ ...definition, name: renamed(name), sql: renamed(sql), undo: renamed(undo) })
  }
  const { objects, columns, defaults } = schema.grants
  const inRights = (rights: Rights): Rights =>
    Object.fromEntries(Object.entries(rights).map(([caller, privileges]) => [renamed(caller), privileges]))
  return {
    ...schema,
    definitions,
    grants: {
      objects: objects.map(each => ({
        ...each,
        actual: inRights(each.actual),
        expected: inRights(each.expected),
      })),
      columns: columns.map(each => ({ ...each, actual: inRights(each.actual) })),
      defaults: defaults.map(each => ({ ...each, caller: renamed(each.caller) })),
    },
  }
}

/** Returns the script in chunks. */
export function scriptFrom(statements: readonly string[], omitted: readonly string[]): string[] {
  if (statements.length === 0 && omitted.length === 0) return []
  const characters = statements.reduce((sum, { length }) => sum + length, 0)
  if (characters > maxCharacters) throw tooLarge(`more than ${maxCharacters / 1024 / 1024} MB as SQL`)
  // Function bodies may reference objects that are created later.
  return [
    'set check_function_bodies = off;\n',
    ...statements.map(each => `\n${each};\n`),
    ...omitted.map(what => `\n-- Not in here, to be made by hand: ${what}`),
  ]
}

/** Sorts by rank and name, but after all dependencies. In a cycle, the object visited first comes last. */
export function inDependencyOrder(
  definitions: readonly Definition[],
  needs: readonly { from: string; to: string }[],
): Definition[] {
  const byId = new Map(definitions.map(definition => [definition.id, definition]))
  const before = (a: Definition, b: Definition) =>
    a.rank - b.rank || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
  const needed = Map.groupBy(
    needs.filter(({ from, to }) => from !== to && byId.has(to)),
    ({ from }) => from,
  )
  const ordered: Definition[] = []
  const seen = new Set<string>()
  const place = (first: Definition): void => {
    // An explicit stack, because chains of views can exceed the call stack.
    const stack: { definition: Definition; rest: Iterator<Definition> }[] = []
    const enter = (definition: Definition) => {
      if (seen.has(definition.id)) return
      seen.add(definition.id)
      const rest = (needed.get(definition.id) ?? []).map(({ to }) => byId.get(to)!)
      stack.push({ definition, rest: rest.toSorted(before).values() })
    }
    enter(first)
    for (let top = stack.at(-1); top; top = stack.at(-1)) {
      const { done, value: next } = top.rest.next()
      if (done) ordered.push(stack.pop()!.definition)
      else enter(next)
    }
  }
  for (const definition of definitions.toSorted(before)) place(definition)
  return ordered
}
