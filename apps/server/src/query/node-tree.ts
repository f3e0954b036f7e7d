// Parses pg_node_tree, the text form of a parsed query: nodes in braces, lists in parentheses.

export type Tree = TreeNode | Tree[] | string
export interface TreeNode {
  kind: string
  fields: Record<string, Tree | undefined>
}

export const isNode = (tree: Tree | undefined): tree is TreeNode =>
  typeof tree === 'object' && !Array.isArray(tree)

export function parseNodeTree(text: string): Tree {
  let at = 0

  function skipSpace(): void {
    while (at < text.length && text.charCodeAt(at) <= 32) at++
  }

  /** Reads up to the next delimiter. A backslash escapes the next character. */
  function word(): string {
    let out = ''
    while (at < text.length && !' \n\t(){}'.includes(text[at]!)) {
      if (text[at] === '\\') at++
      out += text[at++] ?? ''
    }
    return out
  }

  function tree(): Tree {
    skipSpace()
    if (text[at] === '{') return node()
    if (text[at] === '(') return list()
    return word()
  }

  function list(): Tree[] {
    at++
    const items: Tree[] = []
    for (skipSpace(); at < text.length && text[at] !== ')'; skipSpace()) items.push(tree())
    at++
    return items
  }

  /** Keeps the first word of a value with several words, such as the bytes of a constant. */
  function node(): TreeNode {
    at++
    const fields: Record<string, Tree | undefined> = Object.create(null)
    const kind = word()
    let name = ''
    for (skipSpace(); at < text.length && text[at] !== '}'; skipSpace()) {
      if (text[at] === ':') {
        name = word().slice(1)
        fields[name] = undefined
      } else {
        const value = tree()
        fields[name] ??= value
      }
    }
    at++
    return { kind, fields }
  }

  return tree()
}
