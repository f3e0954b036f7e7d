// The project's schema as one script: what it made itself, in an order in which everything that is needed is there.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { defaultGrants, grants } from './grants.ts'
import { dependencies, leftOut, type Piece, pieceQueries, type TableColumn, tableColumns } from './pieces.ts'

export interface Schema {
  /** In order. */
  pieces: Piece[]
  columns: TableColumn[]
  /** Each says all about one object. */
  grants: string[]
  /** What cannot be written here. */
  leftOut: string[]
}

/** In a transaction that sees one moment. */
export async function readSchema(session: Session): Promise<Schema> {
  await session.run(sql`select pg_catalog.set_config('search_path', 'pg_catalog', true)`)
  const pieces: Piece[] = []
  for (const query of pieceQueries) pieces.push(...(await session.rows<Piece>(query)))
  const needs = await session.rows<{ from: string; to: string }>(dependencies)
  const granted = [
    ...(await session.rows<{ sql: string }>(grants)),
    ...(await session.rows<{ sql: string }>(defaultGrants)),
  ]
  const missing = await session.rows<{ what: string }>(leftOut)
  return {
    pieces: inOrder(pieces, needs),
    columns: await session.rows<TableColumn>(tableColumns),
    grants: granted.map(each => each.sql),
    leftOut: missing.map(({ what }) => what),
  }
}

/** Empty when the project has made nothing yet. */
export const schemaScript = ({ pieces, grants, leftOut }: Schema): string =>
  scriptFrom([...pieces.map(each => each.sql), ...grants], leftOut)

export function scriptFrom(statements: readonly string[], leftOut: readonly string[]): string {
  if (statements.length === 0 && leftOut.length === 0) return ''
  // Bodies may name what is made further down.
  const all = ['set check_function_bodies = off', ...statements]
  return all
    .map(each => `${each};\n`)
    .join('\n')
    .concat(leftOut.map(what => `\n-- Not in here, to be made by hand: ${what}`).join(''))
}

/** By rank and name, but never before what it needs; where two need each other, the one asked for first gives way. */
export function inOrder(pieces: readonly Piece[], needs: readonly { from: string; to: string }[]): Piece[] {
  const byId = new Map(pieces.map(piece => [piece.id, piece]))
  const before = (a: Piece, b: Piece) => a.rank - b.rank || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
  const needed = Map.groupBy(
    needs.filter(({ from, to }) => from !== to && byId.has(to)),
    ({ from }) => from,
  )
  const ordered: Piece[] = []
  const seen = new Set<string>()
  const place = (first: Piece): void => {
    // A stack of our own: chains of views can be longer than the one of calls.
    const stack: { piece: Piece; rest: Piece[] }[] = []
    const enter = (piece: Piece) => {
      if (seen.has(piece.id)) return
      seen.add(piece.id)
      const rest = (needed.get(piece.id) ?? []).map(({ to }) => byId.get(to)!)
      stack.push({ piece, rest: rest.toSorted(before) })
    }
    enter(first)
    for (let top = stack.at(-1); top; top = stack.at(-1)) {
      const next = top.rest.shift()
      if (next) enter(next)
      else ordered.push(stack.pop()!.piece)
    }
  }
  for (const piece of pieces.toSorted(before)) place(piece)
  return ordered
}
