// Which relationship an embed means: by the target's name, a foreign key's name or column, and a hint.
import { closest } from '@plinth/contract/closest.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Relation, Relationship, Routine } from './catalog.ts'

/** A function of the row stands for a relationship, too. */
export type Link =
  | { readonly kind: 'key'; readonly relationship: Relationship; readonly isToOne: boolean }
  | { readonly kind: 'function'; readonly routine: Routine; readonly isToOne: boolean }

export function findLink(origin: Relation, name: string, hint: string | undefined): Link {
  const computed = origin.computed.get(name)
  if (computed?.returns === 'row' && hint === undefined)
    return { kind: 'function', routine: computed, isToOne: !computed.isSet || computed.isOneRow }
  const junctions = junctionsTo(origin, name)
  const candidates =
    hint === undefined
      ? [...named(origin.relationships, name), ...junctions.filter(({ junction }) => junction!.isInferred)]
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

/** Relations that refer to both sides: one that is a table stands before the views that show it. */
function junctionsTo(origin: Relation, name: string): Relationship[] {
  const found: Relationship[] = []
  for (const back of origin.relationships) {
    if (back.cardinality === 'many-to-one') continue
    for (const onward of back.target.relationships)
      if (
        onward.cardinality === 'many-to-one' &&
        onward.target.name === name &&
        onward.constraint !== back.constraint
      )
        found.push(joined(origin, back, onward))
  }
  const tables = new Set(
    found.filter(({ junction }) => !junction!.relation.isView).map(each => each.constraint),
  )
  return found.filter(({ constraint, junction }) => !junction!.relation.isView || !tables.has(constraint))
}

function joined(origin: Relation, back: Relationship, onward: Relationship): Relationship {
  const relation = back.target
  const references = [...back.columns.map(([, theirs]) => theirs), ...onward.columns.map(([own]) => own)]
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
      isInferred: relation.keys.some(key => references.every(name => key.includes(name))),
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
