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

export interface Documents {
  operation(text: string, name: string | undefined): Operation
}

const rules = specifiedRules.filter(rule => rule !== OverlappingFieldsCanBeMergedRule)

/** A parsed document takes about twenty times the memory of its text. */
const maxDocuments = 100
const maxTextKept = 5000
const maxPlans = 50
const maxErrors = 5

export function createDocuments(
  catalog: Catalog,
  model: Model,
  schema: GraphQLSchema,
  limits: Limits,
): Documents {
  const known = new Map<string, Map<string, Operation>>()

  function operationsIn(text: string): Map<string, Operation> {
    const found = known.get(text)
    if (found) return found
    const document = parseDocument(text, limits)
    const errors = validate(schema, document, rules, { maxErrors })
    if (errors.length > 0) throw new DocumentProblem(...errors.map(({ message }) => message))
    const conflict = fieldConflictIn(document)
    if (conflict) throw new DocumentProblem(conflict)
    const made = new Map(
      operationNodes(document).map(node => [
        node.name?.value ?? '',
        operationFrom(catalog, model, schema, limits, document, node),
      ]),
    )
    if (text.length <= maxTextKept) {
      if (known.size >= maxDocuments) known.delete(known.keys().next().value!)
      known.set(text, made)
    }
    return made
  }

  return {
    operation(text, name) {
      const operations = operationsIn(text)
      if (name !== undefined) {
        const named = operations.get(name)
        if (!named || name === '') throw new DocumentProblem(`The document has no operation "${name}"`)
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
  const plans = new Map<string, CompiledOperation>()

  return {
    document,
    node,
    isMutation: node.operation === OperationTypeNode.MUTATION,
    asksForSchema: asksForSchema(node.selectionSet, fragments),
    variablesFrom(inputs) {
      const { variableValues, errors } = getVariableValues(schema, definitions, inputs, { maxErrors })
      if (errors) throw new DocumentProblem(...errors.map(({ message }) => message))
      return variableValues.coerced
    },
    compile(variables) {
      const found = plans.get(shapeOf(types, variables, deciding))
      if (found) return found
      const compilation = new Compilation(model, fragments, variables, maxComplexity)
      const statements = compileOperation(compilation, catalog, schema, node)
      const made = { statements, sources: compilation.sources }
      for (const [name, how] of compilation.deciding)
        if (deciding.get(name) !== 'value') deciding.set(name, how)
      if (plans.size >= maxPlans) plans.delete(plans.keys().next().value!)
      plans.set(shapeOf(types, variables, deciding), made)
      return made
    },
  }
}

function asksForSchema(
  { selections }: OperationDefinitionNode['selectionSet'],
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
): boolean {
  return selections.some(node => {
    if (node.kind === Kind.FIELD) return isOfSchema(node.name.value)
    const inner = node.kind === Kind.INLINE_FRAGMENT ? node : fragments.get(node.name.value)
    return inner !== undefined && asksForSchema(inner.selectionSet, fragments)
  })
}
