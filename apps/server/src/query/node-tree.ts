// Reads the text Postgres keeps of a parsed query (pg_node_tree): nodes in braces, lists in parentheses.

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

  /** Up to the next delimiter; a backslash takes the character after it as it is. */
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

  /** A field's value may be several words, such as the bytes of a constant: the first tells all we ask for. */
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
