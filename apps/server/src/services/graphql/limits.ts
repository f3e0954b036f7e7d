// Limits on a document. They are checked before it is validated, because the cost of validation grows faster than the
// document.
import { type DocumentNode, type FragmentDefinitionNode, Kind, parse, type SelectionSetNode } from 'graphql'
import { DocumentProblem } from './compile/problem.ts'

export interface Limits {
  readonly maxDocumentBytes: number
  readonly maxDepth: number
  /** Fields and fragments of all operations of a document after its fragments are expanded. */
  readonly maxFields: number
  readonly maxAliases: number
  /** Rows that an answer may have. */
  readonly maxComplexity: number
}

/** Brackets inside brackets. The parser is recursive. */
const maxNesting = 200
/** Some rules of the validation visit every fragment for each operation. */
const maxOperations = 100

export function parseDocument(text: string, limits: Limits): DocumentNode {
  const bytes = Buffer.byteLength(text)
  if (bytes > limits.maxDocumentBytes)
    throw new DocumentProblem(`The document is longer than ${limits.maxDocumentBytes} bytes`)
  if (nestingOf(text) > maxNesting) throw new DocumentProblem(tooDeep(limits))
  const document = parsed(text, limits)
  checkSize(document, limits)
  return document
}

/** Enough for the longest document of ordinary names. */
const bytesPerToken = 10

function parsed(text: string, { maxDocumentBytes }: Limits): DocumentNode {
  const maxTokens = Math.ceil(maxDocumentBytes / bytesPerToken)
  try {
    return parse(text, { maxTokens, noLocation: true, allowEmptySelectionSets: false })
  } catch (error) {
    throw new DocumentProblem((error as Error).message)
  }
}

/** Counts brackets in strings, too: more than enough for any real document. */
function nestingOf(text: string): number {
  let depth = 0
  let most = 0
  for (const character of text) {
    if (character === '{' || character === '[' || character === '(') most = Math.max(most, ++depth)
    else if (character === '}' || character === ']' || character === ')') depth = Math.max(0, depth - 1)
  }
  return most
}

const tooDeep = ({ maxDepth }: Limits) =>
  `The document is too deep: it has more than ${maxDepth} levels of fields`

interface Size {
  readonly depth: number
  readonly fields: number
  readonly aliases: number
}
const nothing: Size = { depth: 0, fields: 0, aliases: 0 }

function checkSize(document: DocumentNode, limits: Limits): void {
  const fragments = new Map<string, FragmentDefinitionNode>()
  for (const definition of document.definitions)
    if (definition.kind === Kind.FRAGMENT_DEFINITION) fragments.set(definition.name.value, definition)
  const known = new Map<string, Size>()
  const open = new Set<string>()

  /** Each fragment is measured once, however often it is used. */
  function sizeOfFragment(name: string): Size {
    const found = known.get(name)
    if (found) return found
    const fragment = fragments.get(name)
    if (!fragment) return nothing
    if (open.has(name)) throw new DocumentProblem(`The fragment "${name}" uses itself`)
    open.add(name)
    const size = sizeOf(fragment.selectionSet)
    open.delete(name)
    known.set(name, size)
    return size
  }

  function sizeOf({ selections }: SelectionSetNode): Size {
    let { depth, fields, aliases } = nothing
    for (const node of selections) {
      const isField = node.kind === Kind.FIELD
      const inner =
        node.kind === Kind.FRAGMENT_SPREAD
          ? sizeOfFragment(node.name.value)
          : node.selectionSet
            ? sizeOf(node.selectionSet)
            : nothing
      depth = Math.max(depth, inner.depth + (isField ? 1 : 0))
      // A fragment costs as much as a field, also if it has none.
      fields += inner.fields + 1
      aliases += inner.aliases + (isField && node.alias ? 1 : 0)
    }
    return { depth, fields, aliases }
  }

  for (const name of fragments.keys()) sizeOfFragment(name)
  let [operations, allFields] = [0, 0]
  for (const definition of document.definitions) {
    if (definition.kind !== Kind.OPERATION_DEFINITION) continue
    const { depth, fields, aliases } = sizeOf(definition.selectionSet)
    allFields += fields
    check({ depth, fields: allFields, aliases }, limits)
    if (++operations > maxOperations)
      throw new DocumentProblem(`The document has more than ${maxOperations} operations`)
  }
}

function check({ depth, fields, aliases }: Size, limits: Limits): void {
  if (depth > limits.maxDepth) throw new DocumentProblem(tooDeep(limits))
  if (fields > limits.maxFields)
    throw new DocumentProblem(
      `The document is too large: it has more than ${limits.maxFields} fields and fragments, fragments expanded`,
    )
  if (aliases > limits.maxAliases)
    throw new DocumentProblem(`The document has more than ${limits.maxAliases} aliases`)
}
