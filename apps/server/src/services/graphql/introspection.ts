// Answers `__schema` and `__type` in slices. The types and resolvers are those of the reference library. Its executor would
// hold the thread until it ends, and has no limit.
import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLField,
  GraphQLIncludeDirective,
  type GraphQLObjectType,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  GraphQLSkipDirective,
  getArgumentValues,
  getDirectiveValues,
  getNamedType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
  Kind,
  SchemaMetaFieldDef,
  type SelectionNode,
  type SelectionSetNode,
  TypeMetaFieldDef,
} from 'graphql'
import type { Sliced } from '#src/kernel/slices.ts'
import type { Variables } from './compile/given.ts'
import { DocumentProblem } from './compile/problem.ts'
import { isOfSchema } from './compile/schema-fields.ts'
import type { Operation } from './documents.ts'

/** The JSON text of each field about the schema, by its name in the answer. */
export type Shown = Readonly<Record<string, Uint8Array>>

interface Member {
  /** The name in the answer as a JSON key. */
  readonly key: string
  read(source: unknown): unknown
  /** Of an object, or of the objects in a list. */
  readonly members: readonly Member[] | undefined
}

/** `maxLength` is the most characters that the texts may have together. */
export function* introspect(
  schema: GraphQLSchema,
  { document, node }: Pick<Operation, 'document' | 'node'>,
  variables: Variables,
  maxLength: number,
): Sliced<Shown> {
  const shown: Record<string, Uint8Array> = {}
  const text = new Text(maxLength)
  for (const [name, member] of rootMembers(schema, document, node.selectionSet, variables)) {
    yield* write(text, member)
    shown[name] = text.take()
  }
  return shown
}

/** Characters in one slice, written in about a millisecond. */
const sliceLength = 32 * 1024

class Text {
  #left: number
  #inSlice = 0
  #text = ''
  #parts: Buffer[] = []

  constructor(maxLength: number) {
    this.#left = maxLength
  }

  add(text: string): void {
    this.#text += text
    this.#inSlice += text.length
  }

  get isSliceFull(): boolean {
    return this.#inSlice >= sliceLength
  }

  endSlice(): void {
    this.#left -= this.#inSlice
    this.#inSlice = 0
    if (this.#left < 0)
      throw new DocumentProblem(
        'The answer about the schema would be too long: ask for fewer levels in "__schema" and "__type", or for fewer aliases of them. The standard introspection query is always answered',
      )
    this.#parts.push(Buffer.from(this.#text))
    this.#text = ''
  }

  /** The text since the last call. */
  take(): Uint8Array {
    const all = Buffer.concat([...this.#parts, Buffer.from(this.#text)])
    this.#text = ''
    this.#parts = []
    return all
  }
}

/** The objects of one field that are being written. */
interface Frame {
  readonly members: readonly Member[]
  readonly objects: readonly unknown[]
  readonly end: string
  /** Indexes of the current object and of its next member, -1 before the object is begun. */
  object: number
  member: number
}

/** Uses a stack instead of recursion, so that it can pause anywhere. */
function* write(text: Text, root: Member): Sliced<void> {
  const frames: Frame[] = []

  function writeValue({ read, members }: Member, source: unknown): void {
    const value = read(source)
    if (value === undefined || value === null) text.add('null')
    else if (!members) text.add(JSON.stringify(value))
    else {
      const isList = Array.isArray(value)
      if (isList) text.add('[')
      frames.push({
        members,
        objects: isList ? value : [value],
        end: isList ? ']' : '',
        object: 0,
        member: -1,
      })
    }
  }

  writeValue(root, undefined)
  for (let frame = frames.at(-1); frame; frame = frames.at(-1)) {
    if (text.isSliceFull) {
      text.endSlice()
      yield
    }
    const { members, objects } = frame
    if (frame.object === objects.length) {
      text.add(frame.end)
      frames.pop()
    } else if (frame.member < 0) {
      text.add(frame.object > 0 ? ',{' : '{')
      frame.member = 0
    } else if (frame.member === members.length) {
      text.add('}')
      frame.object++
      frame.member = -1
    } else {
      const member = members[frame.member]!
      text.add(frame.member > 0 ? `,${member.key}` : member.key)
      frame.member++
      writeValue(member, objects[frame.object])
    }
  }
}

function rootMembers(
  schema: GraphQLSchema,
  document: DocumentNode,
  root: SelectionSetNode,
  variables: Variables,
): [name: string, member: Member][] {
  const fragments = new Map(
    document.definitions
      .filter((each): each is FragmentDefinitionNode => each.kind === Kind.FRAGMENT_DEFINITION)
      .map(each => [each.name.value, each]),
  )
  const values = { sources: {}, coerced: variables }
  // The resolvers use nothing else of it.
  const info = { schema } as GraphQLResolveInfo

  const isSkipped = (node: SelectionNode): boolean =>
    getDirectiveValues(GraphQLSkipDirective, node, values)?.['if'] === true ||
    getDirectiveValues(GraphQLIncludeDirective, node, values)?.['if'] === false

  /** Every fragment applies, because the types of introspection have no interfaces. */
  function collect({ selections }: SelectionSetNode, merged: Map<string, FieldNode[]>, seen: Set<string>) {
    for (const node of selections) {
      if (isSkipped(node)) continue
      if (node.kind === Kind.FIELD) {
        const name = (node.alias ?? node.name).value
        merged.set(name, [...(merged.get(name) ?? []), node])
      } else if (node.kind === Kind.INLINE_FRAGMENT) collect(node.selectionSet, merged, seen)
      else if (!seen.has(node.name.value)) {
        seen.add(node.name.value)
        collect(fragments.get(node.name.value)!.selectionSet, merged, seen)
      }
    }
    return merged
  }

  function membersOf(type: GraphQLObjectType, nodes: readonly FieldNode[]): Member[] {
    const merged = new Map<string, FieldNode[]>()
    const seen = new Set<string>()
    for (const { selectionSet } of nodes) if (selectionSet) collect(selectionSet, merged, seen)
    return [...merged].map(([name, own]) => {
      const fieldName = own[0]!.name.value
      if (fieldName === '__typename') return { key: `"${name}":`, read: () => type.name, members: undefined }
      return memberFrom(name, type.getFields()[fieldName]!, own)
    })
  }

  function memberFrom(name: string, field: GraphQLField<unknown, unknown>, nodes: FieldNode[]): Member {
    const given = getArgumentValues(field, nodes[0]!, values)
    const type = getNamedType(field.type)
    return {
      key: `"${name}":`,
      read: source => field.resolve!(source, given, undefined, info),
      members: isObjectType(type) ? membersOf(type, nodes) : undefined,
    }
  }

  try {
    return [...collect(root, new Map(), new Set())]
      .filter(([, [first]]) => isOfSchema(first!.name.value))
      .map(([name, nodes]) => {
        const isSchema = nodes[0]!.name.value === '__schema'
        return [name, memberFrom(name, isSchema ? SchemaMetaFieldDef : TypeMetaFieldDef, nodes)]
      })
  } catch (error) {
    // An argument is invalid: a variable is null where that is not allowed.
    throw new DocumentProblem((error as Error).message)
  }
}

/**
 * The most characters about one type, field, argument or value in the answer to the standard introspection query, without
 * its own texts. Usual ones have half as many.
 */
const lengthOfElement = 400
/** For small schemas. */
const leastLength = 500_000

/** More characters than the standard introspection query has in its answer. */
export function maxLengthOf(schema: GraphQLSchema): number {
  let length = 0
  const add = (...texts: (string | null | undefined)[]) => {
    length += lengthOfElement
    for (const text of texts) if (text) length += JSON.stringify(text).length
  }
  for (const type of Object.values(schema.getTypeMap())) {
    add(type.name, type.name, type.description)
    if (isEnumType(type)) for (const value of type.getValues()) add(value.name, value.description)
    if (isInputObjectType(type))
      for (const field of Object.values(type.getFields()))
        add(field.name, field.description, getNamedType(field.type).name)
    if (isObjectType(type) || isInterfaceType(type))
      for (const field of Object.values(type.getFields())) {
        add(field.name, field.description, getNamedType(field.type).name)
        for (const each of field.args) add(each.name, each.description, getNamedType(each.type).name)
      }
  }
  return Math.max(leastLength, length)
}
