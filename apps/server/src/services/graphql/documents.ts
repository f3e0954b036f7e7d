// Documents that have been parsed and validated for one schema, with the plans of their operations.
import {
  type DocumentNode,
  type FragmentDefinitionNode,
  type GraphQLInputType,
  type GraphQLSchema,
  getVariableValues,
  Kind,
  type OperationDefinitionNode,
  OperationTypeNode,
  OverlappingFieldsCanBeMergedRule,
  specifiedRules,
  typeFromAST,
  validate,
} from 'graphql'
import type { Sliced } from '#src/kernel/slices.ts'
import type { Catalog } from '#src/query/catalog.ts'
import { Compilation, type Deciding } from './compile/compilation.ts'
import type { Variables } from './compile/given.ts'
import { type CompiledStatement, compileOperation } from './compile/operation.ts'
import { DocumentProblem } from './compile/problem.ts'
import { isOfSchema } from './compile/schema-fields.ts'
import { shapeOf } from './compile/shape.ts'
import type { ValueSource } from './compile/values.ts'
import { fieldConflictIn } from './field-conflicts.ts'
import { type Limits, parseDocument } from './limits.ts'
import { Recent } from './recent.ts'
import type { Model } from './schema/model.ts'

export interface CompiledOperation {
  readonly statements: readonly CompiledStatement[]
  readonly sources: readonly ValueSource[]
}

export interface Operation {
  readonly document: DocumentNode
  readonly node: OperationDefinitionNode
  readonly isMutation: boolean
  readonly asksForSchema: boolean
  /** Coerced. */
  variablesFrom(inputs: Readonly<Record<string, unknown>>): Variables
  compile(variables: Variables): CompiledOperation
}

type Plans = Recent<CompiledOperation>

/** A value's source takes about as much memory as a hundred characters of SQL. */
const bytesOf = ({ statements, sources }: CompiledOperation): number =>
  statements.reduce((bytes, { sql }) => bytes + sql.length, sources.length * 100)

export interface Documents {
  operation(text: string, name: string | undefined): Sliced<Operation>
}

const rules = specifiedRules.filter(rule => rule !== OverlappingFieldsCanBeMergedRule)

/** A parsed document takes about twenty times the memory of its text. */
const documentBytesPerCharacter = 20
const maxDocuments = { number: 200, bytes: 4_000_000 }
/** Plans of all documents. */
const maxPlans = { number: 500, bytes: 4_000_000 }
const maxErrors = 5
/** Longer documents are parsed and validated in slices. */
const maxTextAtOnce = 5000

export function createDocuments(
  catalog: Catalog,
  model: Model,
  schema: GraphQLSchema,
  limits: Limits,
): Documents {
  const known = new Recent<Map<string, Operation>>(maxDocuments.number, maxDocuments.bytes)
  const plans: Plans = new Recent(maxPlans.number, maxPlans.bytes)
  let lastId = 0

  function* operationsIn(text: string): Sliced<Map<string, Operation>> {
    const found = known.get(text)
    if (found) return found
    const document = parseDocument(text, limits)
    if (text.length > maxTextAtOnce) yield
    const errors = validate(schema, document, rules, { maxErrors })
    if (errors.length > 0) throw new DocumentProblem(...errors.map(({ message }) => message))
    if (text.length > maxTextAtOnce) yield
    const conflict = fieldConflictIn(document)
    if (conflict) throw new DocumentProblem(conflict)
    const made = new Map(
      operationNodes(document).map(node => [
        node.name?.value ?? '',
        operationFrom(catalog, model, schema, limits, document, node, plans, ++lastId),
      ]),
    )
    known.set(text, made, text.length * documentBytesPerCharacter)
    return made
  }

  return {
    *operation(text, name) {
      const operations = yield* operationsIn(text)
      if (name !== undefined) {
        const named = operations.get(name)
        if (!named || name === '')
          throw new DocumentProblem(`The document has no operation "${name.slice(0, 100)}"`)
        return named
      }
      const [only, ...others] = operations.values()
      if (!only) throw new DocumentProblem('The document has no operation')
      if (others.length > 0)
        throw new DocumentProblem('The document has several operations: choose one with "operationName"')
      return only
    },
  }
}

const operationNodes = ({ definitions }: DocumentNode): OperationDefinitionNode[] =>
  definitions.filter(each => each.kind === Kind.OPERATION_DEFINITION)

function operationFrom(
  catalog: Catalog,
  model: Model,
  schema: GraphQLSchema,
  { maxComplexity }: Limits,
  document: DocumentNode,
  node: OperationDefinitionNode,
  plans: Plans,
  id: number,
): Operation {
  if (node.operation === OperationTypeNode.SUBSCRIPTION)
    throw new DocumentProblem('Subscriptions are not supported: use Realtime for live changes')
  const fragments = new Map(
    document.definitions
      .filter((each): each is FragmentDefinitionNode => each.kind === Kind.FRAGMENT_DEFINITION)
      .map(each => [each.name.value, each]),
  )
  const definitions = node.variableDefinitions ?? []
  const types = new Map(
    definitions.map(each => [each.variable.name.value, typeFromAST(schema, each.type) as GraphQLInputType]),
  )
  const deciding: Deciding = new Map()
  const keyOf = (variables: Variables) => `${id} ${shapeOf(types, variables, deciding)}`

  return {
    document,
    node,
    isMutation: node.operation === OperationTypeNode.MUTATION,
    asksForSchema: asksForSchema(node.selectionSet, fragments, new Set()),
    variablesFrom(inputs) {
      const { variableValues, errors } = getVariableValues(
        schema,
        definitions,
        bareObjects(inputs) as typeof inputs,
        { maxErrors },
      )
      if (errors) throw new DocumentProblem(...errors.map(({ message }) => message))
      return variableValues.coerced
    },
    compile(variables) {
      const found = plans.get(keyOf(variables))
      if (found) return found
      const compilation = new Compilation(model, fragments, variables, maxComplexity)
      const statements = compileOperation(compilation, catalog, schema, node)
      const made = { statements, sources: compilation.sources }
      for (const [name, how] of compilation.deciding)
        if (deciding.get(name) !== 'value') deciding.set(name, how)
      const key = keyOf(variables)
      plans.set(key, made, bytesOf(made) + key.length)
      return made
    },
  }
}

/** The reference library reads members by name, so that an object has a `constructor` unless it has no prototype. */
function bareObjects(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(bareObjects)
  if (typeof value !== 'object' || value === null) return value
  const bare = Object.create(null) as Record<string, unknown>
  for (const [name, each] of Object.entries(value)) bare[name] = bareObjects(each)
  return bare
}

function asksForSchema(
  { selections }: OperationDefinitionNode['selectionSet'],
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
  seen: Set<string>,
): boolean {
  return selections.some(node => {
    if (node.kind === Kind.FIELD) return isOfSchema(node.name.value)
    if (node.kind === Kind.INLINE_FRAGMENT) return asksForSchema(node.selectionSet, fragments, seen)
    const { value: name } = node.name
    if (seen.has(name)) return false
    seen.add(name)
    return asksForSchema(fragments.get(name)!.selectionSet, fragments, seen)
  })
}
