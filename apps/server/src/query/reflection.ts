// What each role may see and do in the exposed schemas, with the comments that configure how it is shown. Immutable and
// valid for one version of the schema, like the catalogue.
import type { Role } from '@plinth/contract/route.ts'
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import { sliceBytes } from './catalog-facts.ts'
import type { ReflectionFact } from './reflection-query.ts'

export interface Reflection {
  readonly version: number
  readonly schemas: ReadonlyMap<string, ReflectedSchema>
  /** By oid. */
  readonly relations: ReadonlyMap<number, ReflectedRelation>
  readonly functions: ReadonlyMap<number, ReflectedFunction>
  readonly types: ReadonlyMap<number, ReflectedType>
  readonly enums: ReadonlyMap<number, ReflectedEnum>
  /** Comments of foreign keys, by `<oid of the table>.<name>`. */
  readonly constraints: ReadonlyMap<string, string>
}

interface ReflectedSchema {
  readonly comment: string | null
  isUsable(role: Role): boolean
}

export interface ReflectedRelation {
  readonly comment: string | null
  readonly columns: Map<string, ReflectedColumn>
  mayUse(role: Role, privilege: 'select' | 'insert' | 'update', column: string): boolean
  mayDelete(role: Role): boolean
}

export interface ReflectedColumn {
  readonly type: number
  readonly isNotNull: boolean
  /** Generated, identity, or filled from a sequence of its own. */
  readonly isGenerated: boolean
  readonly comment: string | null
}

export interface ReflectedFunction {
  readonly comment: string | null
  readonly returns: number
  mayCall(role: Role): boolean
}

export interface ReflectedType {
  readonly name: string
  readonly kind: string
  /** Of a domain. */
  readonly base: number
  /** Of an array. */
  readonly element: number
  readonly isArray: boolean
}

export interface ReflectedEnum {
  readonly name: string
  readonly comment: string | null
  readonly labels: readonly string[]
}

const setOf = (names: true | readonly string[]) => names === true || new Set(names)

const places: Record<Role, 0 | 1 | 2> = { anon: 0, authenticated: 1, service_role: 2 }

export function* reflectionFrom(rows: readonly (readonly Cell[])[]): Sliced<Reflection> {
  const draft: Draft = {
    version: 0,
    schemas: new Map(),
    relations: new Map(),
    functions: new Map(),
    types: new Map(),
    enums: new Map(),
    constraints: new Map(),
  }
  let bytes = 0
  for (const [kind, value] of rows) {
    bytes += value!.length
    add(draft, [kind!.toString(), JSON.parse(value!.toString())] as ReflectionFact)
    if (bytes < sliceBytes) continue
    bytes = 0
    yield
  }
  return draft
}

type Draft = { -readonly [K in keyof Reflection]: Reflection[K] } & {
  schemas: Map<string, ReflectedSchema>
  relations: Map<number, ReflectedRelation>
  functions: Map<number, ReflectedFunction>
  types: Map<number, ReflectedType>
  enums: Map<number, ReflectedEnum>
  constraints: Map<string, string>
}

function add(draft: Draft, fact: ReflectionFact): void {
  const [kind, value] = fact
  switch (kind) {
    case 'version':
      draft.version = value
      break
    case 'schema': {
      const [name, comment, usable] = value
      draft.schemas.set(name, { comment, isUsable: role => usable[places[role]] })
      break
    }
    case 'relation': {
      const [oid, comment, select, insert, update, deletable] = value
      const columns = { select: select.map(setOf), insert: insert.map(setOf), update: update.map(setOf) }
      draft.relations.set(oid, {
        comment,
        columns: new Map(),
        mayUse(role, privilege, column) {
          const allowed = columns[privilege][places[role]]!
          return allowed === true || allowed.has(column)
        },
        mayDelete: role => deletable[places[role]],
      })
      break
    }
    case 'columns': {
      const [relation, columns] = value
      const known = draft.relations.get(relation)?.columns
      for (const [name, type, isNotNull, isGenerated, comment] of columns)
        known?.set(name, { type, isNotNull, isGenerated, comment })
      break
    }
    case 'function': {
      const [oid, comment, callable, returns] = value
      draft.functions.set(oid, { comment, returns, mayCall: role => callable[places[role]] })
      break
    }
    case 'constraint': {
      const [relation, name, comment] = value
      draft.constraints.set(`${relation}.${name}`, comment)
      break
    }
    case 'type': {
      const [oid, name, typeKind, base, element, category] = value
      draft.types.set(oid, { name, kind: typeKind, base, element, isArray: category === 'A' })
      break
    }
    case 'enum': {
      const [oid, name, comment, labels] = value
      draft.enums.set(oid, { name, comment, labels: labels ?? [] })
    }
  }
}
