// The fields of a selection: fragments are expanded, fields with the same name are merged, skipped ones are left out.
import {
  type DirectiveNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLField,
  type GraphQLObjectType,
  Kind,
  type SelectionSetNode,
  type ValueNode,
} from 'graphql'
import type { Compilation } from './compilation.ts'
import { fromLiteral, type Given } from './given.ts'

export interface SelectedField {
  /** The name in the answer. */
  readonly name: string
  readonly field: GraphQLField<unknown, unknown> | undefined
  readonly fieldName: string
  readonly selections: readonly SelectionSetNode[]
  argument(name: string): Given | undefined
}

export function fieldsOf(
  compilation: Compilation,
  type: GraphQLObjectType,
  selections: readonly SelectionSetNode[],
): SelectedField[] {
  const merged = new Map<string, FieldNode[]>()
  for (const selection of selections) collect(compilation, type, selection, merged, new Set())
  return [...merged].map(([name, nodes]) => selected(compilation, type, name, nodes))
}

function collect(
  compilation: Compilation,
  type: GraphQLObjectType,
  { selections }: SelectionSetNode,
  merged: Map<string, FieldNode[]>,
  visited: Set<string>,
): void {
  for (const node of selections) {
    if (isSkipped(compilation, node.directives)) continue
    if (node.kind === Kind.FIELD) {
      const name = (node.alias ?? node.name).value
      const known = merged.get(name)
      if (known) known.push(node)
      else merged.set(name, [node])
      continue
    }
    const fragment = fragmentOf(compilation, node, visited)
    if (!fragment) continue
    const condition = fragment.typeCondition?.name.value
    if (condition === undefined || condition === type.name || implementsType(type, condition))
      collect(compilation, type, fragment.selectionSet, merged, visited)
  }
}

const implementsType = (type: GraphQLObjectType, name: string): boolean =>
  type.getInterfaces().some(each => each.name === name)

type Fragment = Pick<FragmentDefinitionNode, 'selectionSet'> & {
  readonly typeCondition?: FragmentDefinitionNode['typeCondition'] | undefined
}

/** A named fragment counts once in a selection. */
function fragmentOf(
  { fragments }: Compilation,
  node: Exclude<SelectionSetNode['selections'][number], FieldNode>,
  visited: Set<string>,
): Fragment | undefined {
  if (node.kind === Kind.INLINE_FRAGMENT) return node
  const name = node.name.value
  if (visited.has(name)) return
  visited.add(name)
  return fragments.get(name)
}

function isSkipped(compilation: Compilation, directives: readonly DirectiveNode[] = []): boolean {
  return directives.some(({ name, arguments: given = [] }) => {
    const condition = given.find(each => each.name.value === 'if')
    if (!condition || (name.value !== 'skip' && name.value !== 'include')) return false
    return compilation.decides(truthOf(condition.value, compilation)) === (name.value === 'skip')
  })
}

const truthOf = (node: ValueNode, { variables, booleanType }: Compilation): Given | undefined =>
  fromLiteral(node, booleanType, variables)

function selected(
  { variables }: Compilation,
  type: GraphQLObjectType,
  name: string,
  nodes: readonly FieldNode[],
): SelectedField {
  const [first] = nodes
  const fieldName = first!.name.value
  const field = type.getFields()[fieldName]
  return {
    name,
    field,
    fieldName,
    selections: nodes.flatMap(({ selectionSet }) => selectionSet ?? []),
    argument(argumentName) {
      const node = first!.arguments?.find(each => each.name.value === argumentName)
      const argument = field?.args.find(each => each.name === argumentName)
      if (!node || !argument) return
      return fromLiteral(node.value, argument.type, variables)
    },
  }
}
