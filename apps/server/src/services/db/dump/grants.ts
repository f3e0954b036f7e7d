// The statements that give objects their grants, for a new object and for one whose grants differ.
import type { Sliced } from '#src/kernel/slices.ts'
import { collect, sliceCounter } from './collections.ts'
import {
  type ColumnGrants,
  type DefaultGrants,
  type ObjectGrants,
  type Rights,
  sharedCallers,
} from './grants-store.ts'

export interface Grants {
  /** One entry per object. */
  objects: ObjectGrants[]
  columns: ColumnGrants[]
  /** Default privileges that differ from those of a new project. */
  defaults: DefaultGrants[]
}

/** Statements for an empty project. Its logins are other ones. */
export function* grantStatements({ objects, columns, defaults }: Grants): Sliced<string[]> {
  const shared = (rights: Rights): Rights =>
    Object.fromEntries(Object.entries(rights).filter(([caller]) => sharedCallers.includes(caller)))
  return [
    ...(yield* collect(objects, ({ object, actual, expected }) =>
      isSame(shared(actual), expected) ? [] : [allGrants(object, shared(actual))],
    )),
    ...(yield* collect(columns, ({ table, column, actual, isOfPlatform }) =>
      isOfPlatform ? [] : joined(columnChange(table, column, {}, shared(actual))),
    )),
    ...(yield* collect(defaults, each =>
      sharedCallers.includes(each.caller) ? [defaultGrant(each, each.actual)] : [],
    )),
  ]
}

/** What the script creates. It has the grants of the default privileges, and no grants of columns. */
export interface Created {
  /** Is asked about objects of the second schema. */
  hasObject(object: ObjectGrants): boolean
  /** Also for a column that the script drops. */
  hasColumn(table: string, column: string): boolean
}

export function* grantChanges(from: Grants, to: Grants, created: Created): Sliced<string[]> {
  const isComplete = sliceCounter()
  const before = yield* byKey(from.objects, ({ object }) => object)
  const after = yield* byKey(to.objects, ({ object }) => object)
  const columnsBefore = yield* byKey(from.columns, keyOfColumn)
  const columnsAfter = yield* byKey(to.columns, keyOfColumn)
  const hasOtherDefaults = from.defaults.length > 0
  /** Revoking a privilege on a table revokes it on its columns, too. */
  const reset = new Set<string>()
  const statements: string[] = []
  for (const each of to.objects) {
    if (isComplete()) yield
    const old = before.get(each.object)
    if (!old || created.hasObject(each)) {
      reset.add(each.object)
      if (hasOtherDefaults || !isSame(each.actual, each.expected))
        statements.push(allGrants(each.object, each.actual))
      continue
    }
    const lines = changes(old.actual, each.actual, privileges => `${privileges} on ${each.object}`)
    if (lines.some(line => line.startsWith('revoke'))) reset.add(each.object)
    statements.push(...joined(lines))
  }
  const isReset = (table: string, column: string) =>
    reset.has(`table ${table}`) || created.hasColumn(table, column)
  for (const [key, { table, column, actual }] of columnsBefore) {
    if (isComplete()) yield
    if (!columnsAfter.has(key) && after.has(`table ${table}`) && !isReset(table, column))
      statements.push(...joined(columnChange(table, column, actual, {})))
  }
  for (const [key, { table, column, actual }] of columnsAfter) {
    if (isComplete()) yield
    const was = isReset(table, column) ? {} : (columnsBefore.get(key)?.actual ?? {})
    statements.push(...joined(columnChange(table, column, was, actual)))
  }
  return [...statements, ...(yield* defaultChanges(from, to))]
}

function* defaultChanges(from: Grants, to: Grants): Sliced<string[]> {
  const keyOf = ({ place, kind, caller }: DefaultGrants) => `${place}${kind} ${caller}`
  const before = yield* byKey(from.defaults, keyOf)
  const after = yield* byKey(to.defaults, keyOf)
  const schemas = yield* collect(to.objects, ({ object }) =>
    object.startsWith('schema ') ? [`in ${object} `] : [],
  )
  const places = new Set(['', ...schemas])
  return [
    ...(yield* collect(from.defaults, each =>
      !after.has(keyOf(each)) && places.has(each.place) ? [defaultGrant(each, each.expected)] : [],
    )),
    ...(yield* collect(to.defaults, each =>
      before.get(keyOf(each))?.actual.join() === each.actual.join() ? [] : [defaultGrant(each, each.actual)],
    )),
  ]
}

function* byKey<T>(items: readonly T[], keyOf: (item: T) => string): Sliced<Map<string, T>> {
  const isComplete = sliceCounter()
  const found = new Map<string, T>()
  for (const item of items) {
    if (isComplete()) yield
    found.set(keyOf(item), item)
  }
  return found
}

const keyOfColumn = ({ table, column }: ColumnGrants) => `${table} ${column}`

const isSame = (one: Rights, other: Rights) =>
  [...new Set([...Object.keys(one), ...Object.keys(other)])].every(
    caller => (one[caller] ?? []).join() === (other[caller] ?? []).join(),
  )

const joined = (lines: readonly string[]) => (lines.length === 0 ? [] : [lines.join(';\n')])

const listed = (privileges: readonly string[]) => privileges.join(', ').toLowerCase()

function allGrants(object: string, actual: Rights): string {
  const others = Object.keys(actual).filter(caller => !sharedCallers.includes(caller))
  const granted = Object.entries(actual).map(
    ([caller, privileges]) => `grant ${listed(privileges)} on ${object} to ${caller}`,
  )
  return [`revoke all on ${object} from ${[...sharedCallers, ...others].join(', ')}`, ...granted].join(';\n')
}

/** `on` completes a list of privileges. */
function changes(was: Rights, now: Rights, on: (privileges: string) => string): string[] {
  const callers = [...new Set([...Object.keys(was), ...Object.keys(now)])].toSorted()
  const without = (some: readonly string[] = [], others: readonly string[] = []) =>
    some.filter(privilege => !others.includes(privilege))
  const each = (verb: string, preposition: string, of: Rights, not: Rights) =>
    callers.flatMap(caller => {
      const privileges = without(of[caller], not[caller])
      return privileges.length === 0 ? [] : [`${verb} ${on(listed(privileges))} ${preposition} ${caller}`]
    })
  return [...each('revoke', 'from', was, now), ...each('grant', 'to', now, was)]
}

const columnChange = (table: string, column: string, was: Rights, now: Rights) =>
  changes(was, now, privileges =>
    privileges
      .split(', ')
      .map(privilege => `${privilege} (${column})`)
      .join(', ')
      .concat(` on ${table}`),
  )

const defaultGrant = ({ place, kind, caller }: DefaultGrants, privileges: readonly string[]) => {
  const prefix = `alter default privileges ${place}`
  const revoked = `${prefix}revoke all on ${kind} from ${caller}`
  return privileges.length === 0
    ? revoked
    : `${revoked};\n${prefix}grant ${listed(privileges)} on ${kind} to ${caller}`
}
