// The project's schema as one script: what it made itself, in an order in which everything that is needed is there.
import { Refusal } from '#src/kernel/errors.ts'
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

/** Each step over the pieces takes some milliseconds for so many. */
const maxPieces = 50_000
const maxCharacters = 50 * 1024 * 1024

const tooLarge = (what: string) =>
  new Refusal(
    'dump_too_large',
    `The schema has ${what}; read it with pg_dump --schema-only over the direct connection`,
  )

/** In a transaction that sees one moment. */
export async function readSchema(session: Session): Promise<Schema> {
  await session.run(sql`select pg_catalog.set_config('search_path', 'pg_catalog', true)`)
  const pieces: Piece[] = []
  for (const query of pieceQueries) {
    for (const piece of await session.rows<Piece>(query)) pieces.push(piece)
    if (pieces.length > maxPieces)
      throw tooLarge(`more than ${maxPieces} tables, columns, functions and the like`)
  }
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
export const schemaScript = ({ pieces, grants, leftOut }: Schema): string[] =>
  scriptFrom([...pieces.map(each => each.sql), ...grants], leftOut)

/** In pieces. */
export function scriptFrom(statements: readonly string[], leftOut: readonly string[]): string[] {
  if (statements.length === 0 && leftOut.length === 0) return []
  const characters = statements.reduce((sum, { length }) => sum + length, 0)
  if (characters > maxCharacters) throw tooLarge(`more than ${maxCharacters / 1024 / 1024} MB as SQL`)
  // Bodies may name what is made further down.
  return [
    'set check_function_bodies = off;\n',
    ...statements.map(each => `\n${each};\n`),
    ...leftOut.map(what => `\n-- Not in here, to be made by hand: ${what}`),
  ]
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
    const stack: { piece: Piece; rest: Iterator<Piece> }[] = []
    const enter = (piece: Piece) => {
      if (seen.has(piece.id)) return
      seen.add(piece.id)
      const rest = (needed.get(piece.id) ?? []).map(({ to }) => byId.get(to)!)
      stack.push({ piece, rest: rest.toSorted(before).values() })
    }
    enter(first)
    for (let top = stack.at(-1); top; top = stack.at(-1)) {
      const { done, value: next } = top.rest.next()
      if (done) ordered.push(stack.pop()!.piece)
      else enter(next)
    }
  }
  for (const piece of pieces.toSorted(before)) place(piece)
  return ordered
}
