// The limit that the platform puts on a page of rows.
import type { Relation } from './catalog.ts'
import type { Level, Where } from './level.ts'

/** `isCapped` says that the platform, not the client, chose the size of the page. */
export function capRows(level: Level, maxRows: number): { level: Level; isCapped: boolean } {
  if (maxRows === 0 || (level.limit !== undefined && level.limit <= maxRows))
    return { level, isCapped: false }
  return { level: { ...level, limit: maxRows }, isCapped: true }
}

/** Whether the conditions name all columns of a unique key, so that at most one row meets them. */
export function isByKey({ keys, isView }: Relation, { where }: Level): boolean {
  // A view may show a row more than once.
  if (isView) return false
  const equal = new Set(where.map(each => (each.kind === 'test' ? equalColumn(each) : undefined)))
  return keys.some(key => key.every(name => equal.has(name)))
}

const equalColumn = ({ value, test }: Where & { kind: 'test' }): string | undefined =>
  test.operator === 'eq' && !test.isNegated && !test.quantifier && value.path.length === 0
    ? value.column?.name
    : undefined
