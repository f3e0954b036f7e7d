// Dumps the project's schema as one script, in dependency order.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import {
  type Definition,
  definitionQueries,
  dependencies,
  omitted,
  readCatalogOnly,
  type TableColumn,
  tableColumns,
} from './definitions-store.ts'
import { defaultGrants, grants } from './grants-store.ts'

export interface Schema {
  /** In dependency order. */
  definitions: Definition[]
  columns: TableColumn[]
  /** One entry per object. */
  grants: string[]
  /** Objects that the script cannot create. */
  omitted: string[]
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
  const needs = await session.rows<{ from: string; to: string }>(dependencies)
  const granted = [
    ...(await session.rows<{ sql: string }>(grants)),
    ...(await session.rows<{ sql: string }>(defaultGrants)),
  ]
  const missing = await session.rows<{ what: string }>(omitted)
  return {
    definitions: inDependencyOrder(definitions, needs),
    columns: await session.rows<TableColumn>(tableColumns),
    grants: granted.map(each => each.sql),
    omitted: missing.map(({ what }) => what),
  }
}

/** Empty if the project has no objects. */
export const schemaScript = ({ definitions, grants, omitted }: Schema): string[] =>
  scriptFrom([...definitions.map(each => each.sql), ...grants], omitted)

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
