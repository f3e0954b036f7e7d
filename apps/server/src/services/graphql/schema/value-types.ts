// The GraphQL types of Postgres types.
import type { ReflectedEnum, Reflection } from '#src/query/reflection.ts'
import { directiveIn, type EnumDirective, hiddenName } from './directives.ts'
import type { EnumModel, ScalarName, ValueType } from './model.ts'
import { isName, type Names } from './names.ts'
import { enumTypeNames } from './type-names.ts'

/** By the name of a type in pg_catalog, and `citext`. */
const scalars = new Map<string, ScalarName>(
  Object.entries({
    int2: 'Int',
    int4: 'Int',
    int8: 'BigInt',
    numeric: 'BigFloat',
    float4: 'Float',
    float8: 'Float',
    text: 'String',
    varchar: 'String',
    bpchar: 'String',
    char: 'String',
    name: 'String',
    citext: 'String',
    bool: 'Boolean',
    uuid: 'UUID',
    date: 'Date',
    time: 'Time',
    timetz: 'Time',
    timestamp: 'Datetime',
    timestamptz: 'Datetime',
    json: 'JSON',
    jsonb: 'JSON',
  }),
)

const maxDomainDepth = 32

export interface ValueTypes {
  /** Undefined for composite types, rows and pseudo-types. Messages name the type only if the role sees it. */
  of(oid: number, isVisible?: boolean): ValueType | undefined
  /** The enums that have been asked for. */
  enums(): EnumModel[]
}

/** An enum whose name is taken is opaque. */
export function createValueTypes({ types, enums }: Reflection, names: Names, taken: Set<string>): ValueTypes {
  const models = new Map<number, EnumModel | undefined>()

  function baseOf(oid: number): number {
    let base = oid
    for (let depth = 0; depth < maxDomainDepth && types.get(base)?.kind === 'd'; depth++)
      base = types.get(base)!.base
    return base
  }

  function enumOf(oid: number, found: ReflectedEnum, isVisible: boolean): EnumModel | undefined {
    if (models.has(oid)) return models.get(oid)
    const model = enumFrom(found, names, isVisible)
    const own = model ? enumTypeNames(model.name) : []
    const isUsable = own.length > 0 && !own.some(name => taken.has(name))
    for (const name of own) taken.add(name)
    models.set(oid, isUsable ? model : undefined)
    return models.get(oid)
  }

  function elementOf(oid: number, isVisible: boolean): ValueType['of'] | undefined {
    const base = baseOf(oid)
    const found = enums.get(base)
    if (found) return enumOf(base, found, isVisible) ?? 'Opaque'
    const type = types.get(base)
    if (!type || type.kind === 'c' || type.kind === 'p') return
    return scalars.get(type.name) ?? 'Opaque'
  }

  return {
    of(oid, isVisible = true) {
      const type = types.get(baseOf(oid))
      const of = elementOf(type?.isArray ? type.element : oid, isVisible)
      return of && { of, isList: type?.isArray ?? false }
    },
    enums: () => [...models.values()].filter(model => model !== undefined),
  }
}

/** Undefined if a label without a mapping is not a name in GraphQL. */
function enumFrom(
  { name, comment, labels }: ReflectedEnum,
  names: Names,
  isVisible: boolean,
): EnumModel | undefined {
  const directive = directiveIn<EnumDirective>(comment, isVisible ? `the type "${name}"` : hiddenName)
  const typeName = directive.name ?? names.type(name)
  const mappings = new Map(Object.entries(directive.mappings ?? {}))
  const shown = labels.map(label => [label, mappings.get(label) ?? label] as const)
  const isPossible =
    isName(typeName) &&
    shown.length > 0 &&
    shown.every(([, value]) => isName(value) && !['true', 'false', 'null'].includes(value)) &&
    new Set(shown.map(([, value]) => value)).size === shown.length
  if (!isPossible) return
  return {
    name: typeName,
    description: directive.description,
    names: new Map(shown),
    labels: new Map(shown.map(([label, value]) => [value, label])),
  }
}
