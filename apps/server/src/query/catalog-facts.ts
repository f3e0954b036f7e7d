// Parses the rows of `catalogQuery` in slices.
import { Refusal } from '#src/kernel/errors.ts'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import type { CatalogFacts, ColumnFacts, HandlerFacts, RoutineFacts } from './catalog-query.ts'

/** About 250,000 columns. The catalogue of a project stays in memory while the project is in use. */
export const maxFactBytes = 16 * 1024 * 1024
/** A single fact can be longer, since a relation can have 1600 columns. */
export const sliceBytes = 128 * 1024

export function* readFacts(rows: readonly (readonly Cell[])[]): Sliced<CatalogFacts> {
  const facts: CatalogFacts = {
    version: 0,
    relations: [],
    columns: new Map(),
    keys: [],
    foreignKeys: [],
    views: [],
    functions: [],
    extensions: new Map(),
    handlers: [],
    representations: [],
  }
  let bytes = 0
  let sliceEnd = sliceBytes
  for (const [kind, value] of rows) {
    bytes += value!.length
    if (bytes > maxFactBytes) throw tooLarge()
    addFact(facts, kind!.toString(), JSON.parse(value!.toString()))
    if (bytes < sliceEnd) continue
    sliceEnd = bytes + sliceBytes
    yield
  }
  return facts
}

function addFact(facts: CatalogFacts, kind: string, value: unknown): void {
  switch (kind) {
    case 'version':
      facts.version = value as number
      break
    case 'relation':
      facts.relations.push(value as CatalogFacts['relations'][number])
      break
    case 'columns': {
      const columns = value as ColumnFacts[]
      facts.columns.set(columns[0]![0], columns)
      break
    }
    case 'key':
      facts.keys.push(value as CatalogFacts['keys'][number])
      break
    case 'foreignKey':
      facts.foreignKeys.push(value as CatalogFacts['foreignKeys'][number])
      break
    case 'view':
      facts.views.push(value as CatalogFacts['views'][number])
      break
    case 'function':
      facts.functions.push(value as RoutineFacts)
      break
    case 'extension': {
      const [name, schema] = value as [string, string]
      facts.extensions.set(name, schema)
      break
    }
    case 'handler':
      facts.handlers.push(value as HandlerFacts)
      break
    case 'representation':
      facts.representations.push(value as CatalogFacts['representations'][number])
  }
}

const tooLarge = () =>
  new Refusal(
    'schema_too_large',
    `The exposed schemas hold more than ${maxFactBytes / 1024 / 1024} MB of tables, columns and functions`,
    { hint: 'Expose fewer schemas in settings.exposed_schemas, or drop what is not used.' },
  )
