// Finds the relationship of an embed by the target's name, by a foreign key's name or column, and by a hint.
import { closest } from '@plinth/contract/closest.ts'
import type { Relation, Relationship } from './catalog.ts'
import type { Link } from './level.ts'
import { QueryError } from './problem.ts'

const links = new WeakMap<Relation, Map<string, Link>>()

/** Caches links per relation: a query may name the same relation many times. */
export function findLink(origin: Relation, name: string, hint: string | undefined): Link {
  const known = links.get(origin) ?? new Map<string, Link>()
  links.set(origin, known)
  const key = JSON.stringify([name, hint])
  const link = known.get(key) ?? searchLink(origin, name, hint)
  known.set(key, link)
  return link
}

function searchLink(origin: Relation, name: string, hint: string | undefined): Link {
  const computed = origin.computed.get(name)
  if (computed?.returns === 'row' && hint === undefined)
    return { kind: 'function', routine: computed, isToOne: !computed.isSet || computed.isOneRow }
  const junctions = junctionsTo(origin, name, hint)
  const candidates =
    hint === undefined
      ? [...named(origin.relationships, name), ...junctions]
      : hinted([...origin.relationships.filter(({ target }) => target.name === name), ...junctions], hint)
  const [relationship, ...others] = candidates
  if (!relationship) throw noRelationship(origin, name, hint)
  if (others.length > 0) throw new QueryError({ kind: 'ambiguous relationship', origin, name, candidates })
  const { cardinality } = relationship
  return {
    kind: 'key',
    relationship,
    isToOne: cardinality === 'many-to-one' || cardinality === 'one-to-one',
  }
}

/** Two candidates are ambiguous already; the rest is for the error message. */
const maxCandidates = 50

/** Many-to-many relationships through tables that refer to both sides, or through views where no such table is exposed. */
function junctionsTo(origin: Relation, name: string, hint: string | undefined): Relationship[] {
  const backs = origin.relationships.filter(
    each =>
      each.cardinality !== 'many-to-one' && (hint !== undefined || isKeyPart(each.target, theirs(each))),
  )
  const through = (isView: boolean) =>
    backs
      .values()
      .filter(({ target }) => target.isView === isView)
      .flatMap(back => joinedBy(origin, back, name, hint))
      .take(maxCandidates)
      .toArray()
  const tables = through(false)
  return tables.length > 0 ? tables : through(true)
}

const joinedBy = (
  origin: Relation,
  back: Relationship,
  name: string,
  hint: string | undefined,
): Relationship[] =>
  (forward(back.target).get(name) ?? [])
    .filter(onward => onward.constraint !== back.constraint && isJunction(back, onward, hint))
    .map(onward => joined(origin, back, onward))

/** Without a hint, only a relation whose key consists of both references is a junction. */
function isJunction(back: Relationship, onward: Relationship, hint: string | undefined): boolean {
  if (hint === undefined)
    return isKeyPart(back.target, [...theirs(back), ...onward.columns.map(([own]) => own)])
  const [column, ...more] = onward.columns
  return back.target.name === hint || onward.constraint === hint || (more.length === 0 && column![0] === hint)
}

const theirs = ({ columns }: Relationship): string[] => columns.map(([, name]) => name)

const isKeyPart = ({ keys }: Relation, names: readonly string[]): boolean =>
  keys.some(key => names.every(name => key.includes(name)))

const forwards = new WeakMap<Relation, ReadonlyMap<string, Relationship[]>>()

/** The relationships to the relations that this one refers to, by their name. */
function forward(relation: Relation): ReadonlyMap<string, Relationship[]> {
  const known = forwards.get(relation)
  if (known) return known
  const references = relation.relationships.filter(({ cardinality }) => cardinality === 'many-to-one')
  const made = Map.groupBy(references, ({ target }) => target.name)
  forwards.set(relation, made)
  return made
}

function joined(origin: Relation, back: Relationship, onward: Relationship): Relationship {
  const relation = back.target
  return {
    cardinality: 'many-to-many',
    target: onward.target,
    constraint: `${back.constraint}, ${onward.constraint}`,
    columns: back.columns,
    isSelf: origin === onward.target,
    junction: {
      relation,
      columns: onward.columns,
      constraints: [back.constraint, onward.constraint],
    },
  }
}

/** Without a hint, the name is that of the target, of a foreign key, or of the only column of a foreign key. */
function named(relationships: readonly Relationship[], name: string): Relationship[] {
  const byTarget = relationships.filter(each => each.target.name === name && !isToParentOfSelf(each))
  const byKey = relationships.filter(each => isKeyNamed(each, name))
  // The name of a foreign key means the table it refers to, not the views that show that table.
  const tables = byKey.filter(({ target }) => !target.isView)
  return [...new Set([...byTarget, ...(tables.length > 0 ? tables : byKey)])]
}

/** On a table that refers to itself, the table's name means the rows that refer to the current row. */
const isToParentOfSelf = ({ isSelf, cardinality, junction }: Relationship): boolean =>
  isSelf && !junction && cardinality === 'many-to-one'

function isKeyNamed({ constraint, cardinality, columns, isSelf }: Relationship, name: string): boolean {
  const isForward = cardinality === 'many-to-one'
  if (constraint === name) return !isSelf || isForward
  return isForward && columns.length === 1 && columns[0]![0] === name
}

/** A direct foreign key comes before a junction, and a junction with this name before one with such a foreign key. */
function hinted(candidates: readonly Relationship[], hint: string): Relationship[] {
  const rules = [
    (each: Relationship) => !each.junction && fitsHint(each, hint),
    ({ junction }: Relationship) => junction?.relation.name === hint,
    ({ junction }: Relationship) =>
      junction?.constraints[1] === hint ||
      (junction?.columns.length === 1 && junction.columns[0]![0] === hint),
  ]
  for (const rule of rules) {
    const found = candidates.filter(rule)
    if (found.length > 0) return found
  }
  return []
}

function fitsHint({ constraint, cardinality, columns, isSelf }: Relationship, hint: string): boolean {
  if (constraint === hint) return !isSelf || cardinality !== 'many-to-one'
  if (columns.length !== 1) return false
  const [own, theirs] = columns[0]!
  // On a table that refers to itself, `table!column` selects the rows that refer to the current row.
  if (isSelf) return cardinality !== 'many-to-one' && theirs === hint
  return own === hint || theirs === hint
}

function noRelationship(origin: Relation, name: string, hint: string | undefined): QueryError {
  const targets = new Set(origin.relationships.map(({ target }) => target.name))
  targets.delete(name)
  return new QueryError({ kind: 'no relationship', origin, name, hint, nearest: closest(name, [...targets]) })
}
