// Sorts objects so that each one comes after all on which it depends.
import type { Sliced } from '#src/kernel/slices.ts'
import { sliceCounter, sorted } from './collections.ts'
import type { Definition } from './definitions-store.ts'

interface Node {
  definition: Definition
  /** By rank and name. */
  needs: Node[]
  dependents: Node[]
  isPlaced: boolean
}

/** Sorts by rank and name, but after all dependencies. In a cycle, the object visited first comes last. */
export function* inDependencyOrder(
  definitions: readonly Definition[],
  needs: readonly { from: string; to: string }[],
): Sliced<Definition[]> {
  const isComplete = sliceCounter()
  const ordered: Definition[] = []
  for (const first of yield* graphOf(definitions, needs)) {
    if (isComplete()) yield
    // An explicit stack, because chains of views can exceed the call stack.
    const stack: { node: Node; next: number }[] = []
    const enter = (node: Node) => {
      if (node.isPlaced) return
      node.isPlaced = true
      stack.push({ node, next: 0 })
    }
    enter(first)
    for (let top = stack.at(-1); top; top = stack.at(-1)) {
      if (isComplete()) yield
      const needed = top.node.needs[top.next++]
      if (needed) enter(needed)
      else ordered.push(stack.pop()!.node.definition)
    }
  }
  return ordered
}

function* graphOf(
  definitions: readonly Definition[],
  needs: readonly { from: string; to: string }[],
): Sliced<Iterable<Node>> {
  const isComplete = sliceCounter()
  const nodes = new Map<string, Node>()
  for (const definition of yield* sorted(definitions, byRankAndName)) {
    if (isComplete()) yield
    nodes.set(definition.id, { definition, needs: [], dependents: [], isPlaced: false })
  }
  for (const { from, to } of needs) {
    if (isComplete()) yield
    const [dependent, needed] = [nodes.get(from), nodes.get(to)]
    if (dependent && needed && dependent !== needed) needed.dependents.push(dependent)
  }
  // In the order of the nodes, so that the needs of each one are sorted.
  for (const node of nodes.values()) {
    if (isComplete()) yield
    for (const dependent of node.dependents) {
      if (isComplete()) yield
      dependent.needs.push(node)
    }
  }
  return nodes.values()
}

const byRankAndName = (a: Definition, b: Definition) =>
  a.rank - b.rank || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
