// Which relationship an embed means: by the target's name, a foreign key's name or column, and a hint.
import { closest } from '@plinth/contract/closest.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Relation, Relationship, Routine } from './catalog.ts'

/** A function of the row stands for a relationship, too. */
export type Link =
  | { readonly kind: 'key'; readonly relationship: Relationship; readonly isToOne: boolean }
  | { readonly kind: 'function'; readonly routine: Routine; readonly isToOne: boolean }

const links = new WeakMap<Relation, Map<string, Link>>()

/** Remembers what it finds: a request may name the same relation many times. */
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
  if (others.length > 0) throw ambiguous(origin, name, candidates)
  const { cardinality } = relationship
  return {
    kind: 'key',
    relationship,
    isToOne: cardinality === 'many-to-one' || cardinality === 'one-to-one',
  }
}

const enough = 50

/** Relations that refer to both sides: tables, or views where the table itself is not exposed. */
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
      .take(enough)
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
    .filter(onward => onward.constraint !== back.constraint && isMeant(back, onward, hint))
    .map(onward => joined(origin, back, onward))

/** Without a hint a junction is one whose key is made of both references. */
function isMeant(back: Relationship, onward: Relationship, hint: string | undefined): boolean {
  if (hint === undefined)
    return isKeyPart(back.target, [...theirs(back), ...onward.columns.map(([own]) => own)])
  const [column, ...more] = onward.columns
  return back.target.name === hint || onward.constraint === hint || (more.length === 0 && column![0] === hint)
}

const theirs = ({ columns }: Relationship): string[] => columns.map(([, name]) => name)

const isKeyPart = ({ keys }: Relation, names: readonly string[]): boolean =>
  keys.some(key => names.every(name => key.includes(name)))

const forwards = new WeakMap<Relation, ReadonlyMap<string, Relationship[]>>()

/** What a relation refers to, by name. */
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

/** Without a hint the name is the target's, or that of a foreign key, or of the one column it is made of. */
function named(relationships: readonly Relationship[], name: string): Relationship[] {
  const byTarget = relationships.filter(({ target }) => target.name === name)
  const byKey = relationships.filter(each => !byTarget.includes(each) && isKeyNamed(each, name))
  // A key's own name means the table it leads to, not the views that show it.
  const tables = byKey.filter(({ target }) => !target.isView)
  return [...byTarget, ...(tables.length > 0 ? tables : byKey)]
}

function isKeyNamed({ constraint, cardinality, columns, isSelf }: Relationship, name: string): boolean {
  const isForward = cardinality === 'many-to-one'
  if (constraint === name) return !isSelf || isForward
  return isForward && columns.length === 1 && columns[0]![0] === name
}

/** A foreign key that leads there directly is meant before a junction, and a junction by its own name before its parts. */
function hinted(candidates: readonly Relationship[], hint: string): Relationship[] {
  const ways = [
    (each: Relationship) => !each.junction && fitsHint(each, hint),
    ({ junction }: Relationship) => junction?.relation.name === hint,
    ({ junction }: Relationship) =>
      junction?.constraints[1] === hint ||
      (junction?.columns.length === 1 && junction.columns[0]![0] === hint),
  ]
  for (const way of ways) {
    const found = candidates.filter(way)
    if (found.length > 0) return found
  }
  return []
}

function fitsHint({ constraint, cardinality, columns, isSelf }: Relationship, hint: string): boolean {
  if (constraint === hint) return !isSelf || cardinality !== 'many-to-one'
  if (columns.length !== 1) return false
  const [own, theirs] = columns[0]!
  // A table that refers to itself is asked by `table!column` for the rows that refer to it.
  if (isSelf) return cardinality !== 'many-to-one' && theirs === hint
  return own === hint || theirs === hint
}

function noRelationship(origin: Relation, name: string, hint: string | undefined): Refusal {
  const meant = closest(
    name,
    [...new Set(origin.relationships.map(({ target }) => target.name))].filter(each => each !== name),
  )
  const searched = hint === undefined ? '' : ` using the hint '${hint}'`
  return new Refusal(
    'PGRST200',
    `Could not find a relationship between '${origin.name}' and '${name}' in the schema cache`,
    {
      details: `Searched for a foreign key relationship between '${origin.name}' and '${name}'${searched} in the schema '${origin.schema}', but no matches were found.`,
      hint: meant ? `Perhaps you meant '${meant}' instead of '${name}'.` : '',
    },
  )
}

const shownCandidates = 20

function ambiguous(origin: Relation, name: string, all: readonly Relationship[]): Refusal {
  const candidates = all.slice(0, shownCandidates)
  const described = candidates.map(({ cardinality, constraint, target, columns, junction }) => ({
    cardinality,
    relationship: junction
      ? `${junction.relation.name} using ${junction.constraints.join(' and ')}`
      : `${constraint} using ${origin.name}(${columns.map(([own]) => own).join(', ')}) and ${target.name}(${columns.map(([, theirs]) => theirs).join(', ')})`,
    embedding: `${origin.name} with ${target.name}`,
  }))
  const ways = candidates.map(
    ({ target, constraint, junction }) => `'${target.name}!${junction?.relation.name ?? constraint}'`,
  )
  return new Refusal(
    'PGRST201',
    `Could not embed because more than one relationship was found for '${origin.name}' and '${name}'`,
    {
      details: JSON.stringify(described),
      hint: `Try changing '${name}' to one of the following: ${ways.join(', ')}. Find the desired relationship in the 'details' key.`,
    },
  )
}
