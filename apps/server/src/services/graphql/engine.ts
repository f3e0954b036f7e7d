// Turns requests into statements for one role and schema of a project. It uses no database and no clock, so that it also
// runs in a thread of its own.

import type { Role } from '@plinth/contract/route.ts'
import { type GraphQLSchema, printSchema } from 'graphql'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import type { Catalog } from '#src/query/catalog.ts'
import type { Reflection } from '#src/query/reflection.ts'
import type { Variables } from './compile/given.ts'
import type { CompiledStatement } from './compile/operation.ts'
import { DocumentProblem } from './compile/problem.ts'
import { valuesFrom } from './compile/values.ts'
import { createDocuments, type Operation } from './documents.ts'
import { introspect, maxLengthOf, type Shown } from './introspection.ts'
import type { Limits } from './limits.ts'
import { Recent } from './recent.ts'
import { graphqlSchemaOf } from './schema/graphql-schema.ts'
import { modelFrom } from './schema/model-from.ts'
import { SchemaProblem } from './schema/problem.ts'

export interface DocumentRequest {
  readonly text: string
  readonly operationName: string | undefined
  readonly variables: Readonly<Record<string, unknown>>
  /** The length of the request. */
  readonly bytes: number
  /** Whether a mutation is refused. */
  readonly isReadOnly: boolean
}

export interface PlannedRequest {
  readonly isMutation: boolean
  readonly statements: readonly CompiledStatement[]
  readonly values: readonly Value[]
  readonly shown: Shown | undefined
}

export interface EngineOptions {
  readonly schema: string
  readonly role: Role
  readonly limits: Limits
  /** Directives in comments cannot set more rows. */
  readonly mostRows: number
}

export interface Engine {
  plan(request: DocumentRequest): Sliced<PlannedRequest>
  /** The schema in the language of GraphQL. */
  print(): string
}

/** Thrown as a problem if the facts are of different versions. Then the catalogue is read again. */
export const schemaChanges = 'The schema is changing: try again'

/** Longer requests are planned in slices. */
const maxBytesAtOnce = 5000

/** Answers about the schema are long, and clients ask for the same ones. */
const maxShown = 2

export function createEngine(
  catalog: Catalog,
  reflection: Reflection,
  { schema: name, role, limits, mostRows }: EngineOptions,
): Engine {
  const model = readModel(() => modelFrom(catalog, reflection, name, role, mostRows))
  const schema = graphqlSchemaOf(model)
  const documents = createDocuments(catalog, model, schema, limits)
  let descriptions: { maxLength: number; known: Recent<Shown> } | undefined

  function* shownBy(
    operation: Operation,
    { text, operationName }: DocumentRequest,
    variables: Variables,
  ): Sliced<Shown> {
    const key = JSON.stringify([text, operationName, variables])
    descriptions ??= descriptionsOf(schema)
    const { maxLength, known } = descriptions
    const found = known.get(key)
    if (found) return found
    const made = yield* introspect(schema, operation, variables, maxLength)
    const bytes = Object.values(made).reduce((sum, { length }) => sum + length, 0)
    known.set(key, made, bytes + key.length)
    return made
  }

  return {
    *plan(request) {
      const operation = yield* documents.operation(request.text, request.operationName)
      const { isMutation } = operation
      if (isMutation && request.isReadOnly)
        return { isMutation, statements: [], values: [], shown: undefined }
      const isLarge = request.bytes > maxBytesAtOnce
      const variables = operation.variablesFrom(request.variables)
      if (isLarge) yield
      const { statements, sources } = operation.compile(variables)
      if (isLarge) yield
      return {
        isMutation,
        statements,
        values: valuesFrom(sources, variables),
        shown: operation.asksForSchema ? yield* shownBy(operation, request, variables) : undefined,
      }
    },
    print: () => `${printSchema(schema)}\n`,
  }
}

/** Reads all fields of the schema, so it is called only when a client asks for a description. */
function descriptionsOf(schema: GraphQLSchema) {
  const maxLength = maxLengthOf(schema)
  // Each description that is short enough to be answered is light enough to be kept.
  return { maxLength, known: new Recent<Shown>(maxShown, 8 * maxLength) }
}

function readModel<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof SchemaProblem ? new DocumentProblem(error.message) : error
  }
}
