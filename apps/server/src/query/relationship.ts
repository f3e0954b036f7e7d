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
  const candidates = origin.relationships.filter(each =>
    hint === undefined ? fits(each, name) : each.target.name === name && fitsHint(each, hint),
  )
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

/** Without a hint the name is the target's, or that of a foreign key, or of the one column it is made of. */
function fits(relationship: Relationship, name: string): boolean {
  const { target, constraint, cardinality, columns, junction, isSelf } = relationship
  if (junction) return target.name === name && junction.isInferred
  if (target.name === name) return true
  const isForward = cardinality === 'many-to-one'
  if (constraint === name) return !isSelf || isForward
  return isForward && columns.length === 1 && columns[0]![0] === name
}

function fitsHint(relationship: Relationship, hint: string): boolean {
  const { constraint, cardinality, columns, junction, isSelf } = relationship
  if (junction)
    return (
      junction.name === hint ||
      junction.constraints[1] === hint ||
      (junction.columns.length === 1 && junction.columns[0]![0] === hint)
    )
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

function ambiguous(origin: Relation, name: string, candidates: readonly Relationship[]): Refusal {
  const described = candidates.map(({ cardinality, constraint, target, columns, junction }) => ({
    cardinality,
    relationship: junction
      ? `${junction.name} using ${junction.constraints.join(' and ')}`
      : `${constraint} using ${origin.name}(${columns.map(([own]) => own).join(', ')}) and ${target.name}(${columns.map(([, theirs]) => theirs).join(', ')})`,
    embedding: `${origin.name} with ${target.name}`,
  }))
  const ways = candidates.map(
    ({ target, constraint, junction }) => `'${target.name}!${junction?.name ?? constraint}'`,
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
