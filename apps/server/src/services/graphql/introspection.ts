// Answers `__schema` and `__type` with the reference library.
import {
  type DocumentNode,
  executeSync,
  type FragmentDefinitionNode,
  type GraphQLSchema,
  Kind,
  type SelectionNode,
  type SelectionSetNode,
} from 'graphql'
import { DocumentProblem } from './compile/problem.ts'
import { isOfSchema, placeholderOf } from './compile/schema-fields.ts'
import type { Operation } from './documents.ts'

/** The JSON text of each field about the schema, by its placeholder. */
export function introspect(
  schema: GraphQLSchema,
  { document, node }: Operation,
  inputs: Readonly<Record<string, unknown>>,
): Record<string, string> {
  const fragments = new Map(
    document.definitions
      .filter((each): each is FragmentDefinitionNode => each.kind === Kind.FRAGMENT_DEFINITION)
      .map(each => [each.name.value, each]),
  )
  const reduced = { ...node, selectionSet: onlySchema(node.selectionSet, fragments) }
  const { data, errors } = executeSync({
    schema,
    document: { ...document, definitions: [reduced, ...fragments.values()] } as DocumentNode,
    variableValues: inputs,
  })
  if (errors) throw new DocumentProblem(...errors.map(({ message }) => message))
  return Object.fromEntries(
    Object.entries(data ?? {}).map(([name, value]) => [placeholderOf(name), JSON.stringify(value)]),
  )
}

function onlySchema(
  set: SelectionSetNode,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
): SelectionSetNode {
  const selections = set.selections.flatMap((node): SelectionNode[] => {
    if (node.kind === Kind.FIELD) return isOfSchema(node.name.value) ? [node] : []
    const inner = node.kind === Kind.INLINE_FRAGMENT ? node : fragments.get(node.name.value)
    if (!inner) return []
    const { directives } = node
    const selectionSet = onlySchema(inner.selectionSet, fragments)
    if (selectionSet.selections.length === 0) return []
    return [{ kind: Kind.INLINE_FRAGMENT, selectionSet, ...(directives && { directives }) }]
  })
  return { ...set, selections }
}
