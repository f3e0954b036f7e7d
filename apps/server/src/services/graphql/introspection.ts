// Answers `__schema` and `__type` with the reference library.
import { randomUUID } from 'node:crypto'
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
import type { Operation } from './documents.ts'

export const isOfSchema = (fieldName: string): boolean => fieldName === '__schema' || fieldName === '__type'

/** Unknown to everybody, so that no text of a project contains it. */
const token = randomUUID()

/** Stands in the answer of Postgres where a field about the schema belongs. */
export const placeholderOf = (name: string): string => `${token} ${name}`

/** Puts texts into an answer, each in place of its placeholder. */
export function withSchemaFields(answer: Buffer, shown: Readonly<Record<string, string>>): Buffer {
  let filled = answer
  for (const [placeholder, text] of Object.entries(shown)) {
    const quoted = `"${placeholder}"`
    const at = filled.indexOf(quoted)
    if (at < 0) continue
    filled = Buffer.concat([filled.subarray(0, at), Buffer.from(text), filled.subarray(at + quoted.length)])
  }
  return filled
}

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
