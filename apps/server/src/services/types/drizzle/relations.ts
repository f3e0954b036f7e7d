// Generates both sides of every foreign key. The relation has the name of the constraint, so that several are distinct.
import type { Sliced } from '#src/kernel/slices.ts'
import type { Relation, Relationship } from '#src/query/description.ts'
import { camel, createNames, type Names } from './names.ts'

export interface Written {
  relation: Relation
  /** The exported constant. */
  name: string
  /** The property of each column. */
  keys: ReadonlyMap<string, string>
}

export type Find = (schema: string, name: string) => Written | undefined

interface Ends {
  names: Names
  lines: string[]
  uses: Set<'one' | 'many'>
}

/** Relations per slice. */
const writtenAtOnce = 20

export function* eachInSlices<T, R>(all: readonly T[], write: (each: T) => R): Sliced<R[]> {
  const done: R[] = []
  for (const each of all) {
    done.push(write(each))
    if (done.length % writtenAtOnce === 0) yield
  }
  return done
}

export function* relationTexts(written: readonly Written[], find: Find, names: Names): Sliced<string[]> {
  const ends = new Map(
    yield* eachInSlices(written, (each): [Written, Ends] => [
      each,
      { names: createNames([...each.keys.values()]), lines: [], uses: new Set() },
    ]),
  )
  yield* eachInSlices(written, child => {
    for (const key of child.relation.relationships) {
      const parent = key.isDirect ? find(key.referencedSchema, key.referencedRelation) : undefined
      if (!parent) continue
      const one = addParent(ends.get(child)!, child, parent, key)
      addChildren(ends.get(parent)!, child, parent, key, one)
    }
  })
  const texts = yield* eachInSlices(written, each => {
    const { lines, uses } = ends.get(each)!
    if (lines.length === 0) return []
    const given = [...uses].toSorted().reverse().join(', ')
    const name = names.take(`${each.name}Relations`)
    return `export const ${name} = relations(${each.name}, ({ ${given} }) => ({\n${lines.map(line => `  ${line},`).join('\n')}\n}))`
  })
  return texts.flat()
}

const columnsOf = ({ name, keys }: Written, columns: readonly string[]) =>
  columns.map(column => `${name}.${keys.get(column)}`).join(', ')

function addParent(ends: Ends, child: Written, parent: Written, key: Relationship): string {
  const name = ends.names.take(referenceName(key), parent.name, 'Row')
  const fields = columnsOf(child, key.columns)
  const references = columnsOf(parent, key.referencedColumns)
  ends.uses.add('one')
  ends.lines.push(
    `${name}: one(${parent.name}, { fields: [${fields}], references: [${references}], relationName: ${JSON.stringify(key.name)} })`,
  )
  return name
}

function addChildren(ends: Ends, child: Written, parent: Written, key: Relationship, one: string): void {
  const name = ends.names.take(child.name, `${child.name}_${one}`, 'Rows')
  // Drizzle allows a one-to-one relation on this side only without a relation name.
  const isAlone = child.relation.relationships.filter(isSameEnd(key)).length === 1 && child !== parent
  const how = key.isOneToOne && isAlone ? 'one' : 'many'
  ends.uses.add(how)
  ends.lines.push(
    how === 'one'
      ? `${name}: one(${child.name})`
      : `${name}: many(${child.name}, { relationName: ${JSON.stringify(key.name)} })`,
  )
}

const isSameEnd = (one: Relationship) => (other: Relationship) =>
  other.isDirect &&
  other.referencedSchema === one.referencedSchema &&
  other.referencedRelation === one.referencedRelation

/** `author_id` becomes `author`. */
const referenceName = ({ columns, referencedRelation }: Relationship): string => {
  const [only, ...others] = columns
  const stem = others.length === 0 ? /^(.+)_id$/i.exec(only ?? '')?.[1] : undefined
  return camel(stem ?? referencedRelation)
}
