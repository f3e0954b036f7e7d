// Errors of planning and running a query, with the codes and messages of PostgREST.
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { Relation, Relationship } from '#src/query/catalog.ts'
import type { Problem } from '#src/query/problem.ts'
import { unreadable } from './grammar/reader.ts'
import { notEmbedded } from './grammar/rows-query.ts'
import { tooManyOutputs } from './grammar/select.ts'

export function refusalFromProblem(problem: Problem): Refusal {
  switch (problem.kind) {
    case 'unknown relation': {
      const { schema, name, nearest } = problem
      return new Refusal('PGRST205', `Could not find the table '${schema}.${name}' in the schema cache`, {
        hint: nearest ? `Perhaps you meant the table '${schema}.${nearest}'` : '',
      })
    }
    case 'unknown column': {
      const { relation, name, nearest } = problem
      return new Refusal('42703', `column ${relation}.${name} does not exist`, {
        hint: nearest ? `Perhaps you meant to reference the column "${relation}.${nearest}".` : '',
      })
    }
    case 'unknown payload column': {
      const { relation, name, nearest } = problem
      const message = `Could not find the '${name}' column of '${relation}' in the schema cache`
      return new Refusal('PGRST204', message, {
        hint: nearest ? `Perhaps you meant the column '${nearest}'` : '',
      })
    }
    case 'unknown function':
      return unknownFunction(problem)
    case 'ambiguous function':
      return ambiguousFunction(problem)
    case 'no relationship': {
      const { origin, name, hint, nearest } = problem
      const searched = hint === undefined ? '' : ` using the hint '${hint}'`
      return noRelationship(origin.name, name, {
        details: `Searched for a foreign key relationship between '${origin.name}' and '${name}'${searched} in the schema '${origin.schema}', but no matches were found.`,
        hint: nearest ? `Perhaps you meant '${nearest}' instead of '${name}'.` : '',
      })
    }
    case 'embed in a function result':
      return noRelationship(problem.origin, problem.name, {
        details: `'${problem.origin}' is no table or view, so no foreign key leads from it.`,
      })
    case 'ambiguous relationship':
      return ambiguousRelationship(problem)
    case 'unknown embed':
      return notEmbedded(problem.name)
    case 'condition on embed':
      return new Refusal('PGRST120', `Bad operator on the '${problem.name}' embedded resource`, {
        hint: 'Only is null or not is null filters are allowed on embedded resources',
      })
    case 'order by many rows': {
      const { origin, name } = problem
      return new Refusal('PGRST118', `A related order on '${name}' is not possible`, {
        details: `'${origin}' and '${name}' do not form a many-to-one or one-to-one relationship`,
      })
    }
    case 'aggregate in a to-many spread':
      return new Refusal('PGRST127', 'Feature not implemented', {
        details: 'Aggregates are not implemented for one-to-many or many-to-many spreads.',
      })
    case 'no vector extension':
      return new Refusal(
        'PGRST100',
        'Distances of vectors need the extension "vector", which this project does not have',
        { hint: 'create extension vector with schema extensions; the server must have pgvector installed.' },
      )
    case 'not a vector':
      return new Refusal('PGRST100', `The column "${problem.column}" holds no vectors`, {
        hint: 'l2, cosine and ip compare columns of the type vector.',
      })
    case 'too many outputs':
      return tooManyOutputs(problem.max)
    case 'impossible cast':
      return unreadable('select parameter', problem.type, 'nothing can be cast to "unknown"')
    case 'no conflict target':
      return new Refusal(
        'invalid_request',
        `"${problem.relation}" has no primary key to find duplicates by`,
        { hint: 'Name the columns of a unique constraint with ?on_conflict=a,b.' },
      )
    case 'invalid query':
      return new Refusal('invalid_request', problem.messages.join('; '))
    case 'not one row':
      return notOneRow(problem.rows)
    case 'too many rows':
      return new Refusal('PGRST124', 'Query result exceeds max-affected preference constraint', {
        details: `The query affects ${problem.rows} rows`,
      })
    case 'schema keeps changing':
      return retryLater(
        'schema_changing',
        'The schema changes faster than requests can be planned; try again in a second',
        1,
      )
  }
}

export const notOneRow = (rows: number | string) =>
  new Refusal('PGRST116', 'Cannot coerce the result to a single JSON object', {
    details: `The result contains ${rows} rows`,
  })

const maxShownArguments = 20

function unknownFunction({ schema, name, given, nearest }: Problem & { kind: 'unknown function' }): Refusal {
  const shown =
    given && given.length > maxShownArguments ? [...given.slice(0, maxShownArguments), '…'] : (given ?? [])
  const called = `${schema}.${name}${shown.length > 0 ? `(${shown.join(', ')})` : ''}`
  const parameters = nearest?.parameters.map(parameter => parameter.name).join(', ')
  return new Refusal('PGRST202', `Could not find the function ${called} in the schema cache`, {
    details: `Searched for the function ${schema}.${name}${given ? argumentsIn(given, shown) : ''}, but no matches were found in the schema cache.`,
    hint: nearest ? `Perhaps you meant to call the function ${schema}.${nearest.name}(${parameters})` : '',
  })
}

const argumentsIn = (given: readonly string[], shown: readonly string[]): string =>
  given.length > 0
    ? ` with parameter${given.length > 1 ? 's' : ''} ${shown.join(', ')}`
    : ' without parameters'

const maxShownFunctions = 20

function ambiguousFunction({ schema, name, candidates }: Problem & { kind: 'ambiguous function' }): Refusal {
  const signatures = candidates
    .slice(0, maxShownFunctions)
    .map(
      ({ parameters }) =>
        `${schema}.${name}(${parameters.map(parameter => `${parameter.name} => ${parameter.type}`).join(', ')})`,
    )
  if (candidates.length > maxShownFunctions) signatures.push('…')
  return new Refusal(
    'PGRST203',
    `Could not choose the best candidate function between: ${signatures.join(', ')}`,
    {
      hint: 'Try renaming the parameters or the function itself in the database so function overloading can be resolved',
    },
  )
}

const noRelationship = (origin: string, name: string, more: { details: string; hint?: string }): Refusal =>
  new Refusal(
    'PGRST200',
    `Could not find a relationship between '${origin}' and '${name}' in the schema cache`,
    more,
  )

const maxShownRelationships = 20

function ambiguousRelationship({
  origin,
  name,
  candidates,
}: Problem & { kind: 'ambiguous relationship' }): Refusal {
  const shown = candidates.slice(0, maxShownRelationships)
  const choices = new Set(
    shown.map(
      ({ target, constraint, junction }) => `'${target.name}!${junction?.relation.name ?? constraint}'`,
    ),
  )
  return new Refusal(
    'PGRST201',
    `Could not embed because more than one relationship was found for '${origin.name}' and '${name}'`,
    {
      details: JSON.stringify(shown.map(relationship => described(origin, relationship))),
      hint: `Try changing '${name}' to one of the following: ${[...choices].join(', ')}. Find the desired relationship in the 'details' key.`,
    },
  )
}

const described = (
  origin: Relation,
  { cardinality, constraint, target, columns, junction }: Relationship,
) => ({
  cardinality,
  relationship: junction
    ? `${junction.relation.name} using ${junction.constraints.join(' and ')}`
    : `${constraint} using ${origin.name}(${columns.map(([own]) => own).join(', ')}) and ${target.name}(${columns.map(([, theirs]) => theirs).join(', ')})`,
  embedding: `${origin.name} with ${target.name}`,
})
