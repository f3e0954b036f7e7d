// The manifest as JSON lines: the first one has all but the lists of the database, of which each item is a further line.
// The tenant decides how long they are, and one JSON text of all would hold the event loop.
import { giveWay } from '#src/kernel/give-way.ts'
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { readLines } from './json-lines.ts'
import type { DatabaseContents } from './manifest.ts'

/** Format 1 is one JSON text without an end of line. Up to format 2, files have a hash and not a MAC, and all rows are text. */
const formats = { text: 1, hashes: 2, macs: 3 }
const lists = ['tables', 'sequences', 'extensions', 'materialized', 'largeObjects'] as const
export const maxManifestBytes = 256 * 1024 * 1024

interface WithDatabase {
  database: DatabaseContents
}
type Lists = Record<string, unknown[]>
/** The table is that of a row in `named`. */
type Line = [list: string, item: unknown, table?: string]

export async function* manifestLines({ database, ...rest }: WithDatabase): AsyncGenerator<unknown> {
  const empty = Object.fromEntries(lists.map(list => [list, []]))
  yield { format: formats.macs, ...rest, database: { ...database, ...empty, named: {} } }
  for (const list of lists)
    for (const item of database[list]) {
      await giveWay()
      yield [list, item] satisfies Line
    }
  for (const [table, rows] of Object.entries(database.named))
    for (const row of rows) {
      await giveWay()
      yield ['named', row, table] satisfies Line
    }
}

export async function readManifest<M extends WithDatabase>(chunks: AsyncIterable<Buffer>): Promise<M> {
  let manifest: M | undefined
  for await (const line of readLines<unknown>(chunks, { maxBytes: maxManifestBytes, hasOpenEnd: true })) {
    await giveWay()
    if (manifest) addLine(manifest.database, line as Line)
    else manifest = firstLine(line as M & { format: number })
  }
  if (!manifest) throw new DamagedFile('the manifest is empty')
  return manifest
}

function firstLine<M extends WithDatabase>({ format, ...manifest }: M & { format: number }): M {
  if (!Object.values(formats).includes(format))
    throw new Error(`the backup has the format ${format}, which this version cannot read`)
  return manifest as unknown as M
}

function addLine(database: DatabaseContents, [list, item, table]: Line): void {
  const { named } = database as { named: Lists }
  if (table !== undefined) named[table] ??= []
  const items = table === undefined ? (database as unknown as Lists)[list] : named[table]
  items!.push(item)
}
