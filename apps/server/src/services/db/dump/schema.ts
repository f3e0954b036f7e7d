// The project's schema as one script: what it made itself, in an order in which everything that is needed is there.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { defaultGrants, grants } from './grants.ts'
import { dependencies, leftOut, type Piece, pieceQueries } from './pieces.ts'

/** Empty when the project has made nothing yet. In a transaction that sees one moment. */
export async function schemaScript(session: Session): Promise<string> {
  await session.run(sql`select pg_catalog.set_config('search_path', 'pg_catalog', true)`)
  const pieces: Piece[] = []
  for (const query of pieceQueries) pieces.push(...(await session.rows<Piece>(query)))
  const needs = await session.rows<{ from: string; to: string }>(dependencies)
  const ordered = inOrder(pieces, needs).map(each => each.sql)
  const granted = [
    ...(await session.rows<{ sql: string }>(grants)),
    ...(await session.rows<{ sql: string }>(defaultGrants)),
  ].map(each => each.sql)
  const missing = await session.rows<{ what: string }>(leftOut)
  const statements = [...ordered, ...granted]
  if (statements.length === 0 && missing.length === 0) return ''
  return [
    // Bodies may name what is made further down.
    'set check_function_bodies = off',
    ...statements,
  ]
    .map(each => `${each};\n`)
    .join('\n')
    .concat(missing.map(({ what }) => `\n-- Not in here, to be made by hand: ${what}`).join(''))
}

/** By rank and name, but never before what it needs; where two need each other, the one asked for first gives way. */
export function inOrder(pieces: readonly Piece[], needs: readonly { from: string; to: string }[]): Piece[] {
  const byId = new Map(pieces.map(piece => [piece.id, piece]))
  const before = (a: Piece, b: Piece) => a.rank - b.rank || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
  const needed = new Map<string, Piece[]>()
  for (const { from, to } of needs) {
    const piece = byId.get(to)
    if (piece && from !== to) needed.set(from, [...(needed.get(from) ?? []), piece])
  }
  const ordered: Piece[] = []
  const seen = new Set<string>()
  const place = (first: Piece): void => {
    // A stack of our own: chains of views can be longer than the one of calls.
    const stack: { piece: Piece; rest: Piece[] }[] = []
    const enter = (piece: Piece) => {
      if (seen.has(piece.id)) return
      seen.add(piece.id)
      stack.push({ piece, rest: (needed.get(piece.id) ?? []).toSorted(before) })
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
