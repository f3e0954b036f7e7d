// Turns requests into statements for one role and schema of a project. It uses no database and no clock, so that it also
// runs in a thread of its own.

import type { Role } from '@plinth/contract/route.ts'
import { printSchema } from 'graphql'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import type { Catalog } from '#src/query/catalog.ts'
import type { Reflection } from '#src/query/reflection.ts'
import type { CompiledStatement } from './compile/operation.ts'
import { DocumentProblem } from './compile/problem.ts'
import { valuesFrom } from './compile/values.ts'
import { createDocuments, type Operation } from './documents.ts'
import { introspect } from './introspection.ts'
import type { Limits } from './limits.ts'
import { Recent } from './recent.ts'
import { graphqlSchemaOf } from './schema/graphql-schema.ts'
import { modelFrom } from './schema/model-from.ts'
import { SchemaProblem } from './schema/problem.ts'

export interface DocumentRequest {
  readonly text: string
  readonly operationName: string | undefined
  readonly variables: Readonly<Record<string, unknown>>
  /** Whether a mutation is refused. */
  readonly isReadOnly: boolean
}

export interface PlannedRequest {
  readonly isMutation: boolean
  readonly statements: readonly CompiledStatement[]
  readonly values: readonly Value[]
  /** The JSON text of each field about the schema, by its placeholder in the answer. */
  readonly shown: Readonly<Record<string, string>> | undefined
}

export interface EngineOptions {
  readonly schema: string
  readonly role: Role
  readonly limits: Limits
  /** Directives in comments cannot set more rows. */
  readonly mostRows: number
}

export interface Engine {
  plan(request: DocumentRequest): PlannedRequest
  /** The schema in the language of GraphQL. */
  print(): string
}

/** Answers about the schema are large and always the same. */
const maxShown = 3

export function createEngine(
  catalog: Catalog,
  reflection: Reflection,
  { schema: name, role, limits, mostRows }: EngineOptions,
): Engine {
  const model = readModel(() => modelFrom(catalog, reflection, name, role, mostRows))
  const schema = graphqlSchemaOf(model)
  const documents = createDocuments(catalog, model, schema, limits)
  const known = new Recent<Readonly<Record<string, string>>>(maxShown)

  function shownBy(operation: Operation, { text, operationName, variables }: DocumentRequest) {
    const key = JSON.stringify([text, operationName, variables])
    const found = known.get(key) ?? introspect(schema, operation, variables)
    known.set(key, found)
    return found
  }

  return {
    plan(request) {
      const operation = documents.operation(request.text, request.operationName)
      const { isMutation } = operation
      if (isMutation && request.isReadOnly)
        return { isMutation, statements: [], values: [], shown: undefined }
      const variables = operation.variablesFrom(request.variables)
      const { statements, sources } = operation.compile(variables)
      return {
        isMutation,
        statements,
        values: valuesFrom(sources, variables),
        shown: operation.asksForSchema ? shownBy(operation, request) : undefined,
      }
    },
    print: () => `${printSchema(schema)}\n`,
  }
}

function readModel<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof SchemaProblem ? new DocumentProblem(error.message) : error
  }
}
