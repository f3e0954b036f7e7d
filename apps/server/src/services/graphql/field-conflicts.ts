// Whether fields with the same name in an answer are the same field with the same arguments. The rule of the reference
// library compares every two of them, which takes seconds for a document of a few kilobytes; this one compares each with
// the first. The limits on documents bound the number of fields.
import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  Kind,
  print,
  type SelectionSetNode,
} from 'graphql'

interface Found {
  readonly node: FieldNode
  /** The type that a fragment names, if the field is in one. */
  readonly type: string | undefined
}

/** A message about the first conflict, or undefined. */
export function fieldConflictIn({ definitions }: DocumentNode): string | undefined {
  const fragments = new Map<string, FragmentDefinitionNode>()
  for (const each of definitions)
    if (each.kind === Kind.FRAGMENT_DEFINITION) fragments.set(each.name.value, each)
  for (const each of definitions) {
    const conflict =
      each.kind === Kind.OPERATION_DEFINITION ? conflictIn([each.selectionSet], fragments) : undefined
    if (conflict) return conflict
  }
  return
}

function conflictIn(
  sets: readonly SelectionSetNode[],
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
): string | undefined {
  const found = new Map<string, Found[]>()
  const visited = new Set<string>()
  for (const set of sets) collect(set, undefined, fragments, found, visited)
  for (const [name, all] of found) {
    const conflict = conflictOf(name, all)
    if (conflict) return conflict
    for (const same of Map.groupBy(all, ({ node }) => node.name.value).values()) {
      const inner = same.flatMap(({ node }) => node.selectionSet ?? [])
      const deeper = inner.length > 0 ? conflictIn(inner, fragments) : undefined
      if (deeper) return deeper
    }
  }
  return
}

function collect(
  { selections }: SelectionSetNode,
  type: string | undefined,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
  found: Map<string, Found[]>,
  visited: Set<string>,
): void {
  for (const node of selections) {
    if (node.kind === Kind.FIELD) {
      const name = (node.alias ?? node.name).value
      const all = found.get(name)
      if (all) all.push({ node, type })
      else found.set(name, [{ node, type }])
      continue
    }
    if (node.kind === Kind.FRAGMENT_SPREAD) {
      if (visited.has(node.name.value)) continue
      visited.add(node.name.value)
    }
    const fragment = node.kind === Kind.FRAGMENT_SPREAD ? fragments.get(node.name.value) : node
    if (!fragment) continue
    collect(fragment.selectionSet, fragment.typeCondition?.name.value ?? type, fragments, found, visited)
  }
}

/** Fields of rows of different types may differ: an answer has one of them. */
function conflictOf(name: string, all: readonly Found[]): string | undefined {
  if (all.length === 1) return
  const firsts = new Map<string | undefined, string>()
  for (const { node, type } of all) {
    const text = signatureOf(node)
    const first = firsts.get(type)
    if (first === undefined) firsts.set(type, text)
    else if (first !== text) return conflict(name)
  }
  const outside = firsts.get(undefined)
  const differs = outside !== undefined && firsts.values().some(each => each !== outside)
  return differs ? conflict(name) : undefined
}

const conflict = (name: string) =>
  `Fields "${name}" conflict: they are different fields, or have different arguments. Use aliases to get both`

const signatureOf = ({ name, arguments: given = [] }: FieldNode): string =>
  [name.value, ...given.map(each => print(each)).toSorted()].join('\0')
