// Types of functions: arguments, results, and the relation of returned rows.
import { inputs, outputs, type Routine } from '#src/query/description.ts'
import { block, byText, indent, key, quote } from './text.ts'
import type { ValueTypes } from './value-types.ts'

/** Overloads are a union. A call selects the member that fits its arguments. */
export function functionType(overloads: readonly Routine[], values: ValueTypes): string {
  const bySignature = Map.groupBy(overloads, each =>
    inputs(each)
      .map(({ name }) => name)
      .toSorted()
      .join('\0'),
  )
  const members = [...bySignature.values()].map(alike =>
    alike.length === 1 ? signature(alike[0]!, values) : ambiguous(alike, values),
  )
  return members.length === 1 ? members[0]! : `\n${members.map(each => indent(`| ${each}`)).join('\n')}`
}

/** A call over HTTP cannot distinguish overloads that differ only in types. */
function ambiguous(alike: readonly Routine[], values: ValueTypes): string {
  const [first] = alike
  const reason = `${alike.length} functions named ${first!.name} take parameters of these names: rename some of the parameters`
  return block([`Args: ${argsType(first!, values)}`, `Returns: { error: true } & ${quote(reason)}`])
}

function signature(routine: Routine, values: ValueTypes): string {
  const options = setofOptions(routine, values)
  return block([
    `Args: ${argsType(routine, values)}`,
    `Returns: ${returnsType(routine, values, options?.isOneToOne ?? false)}`,
    ...(options
      ? [
          `SetofOptions: ${block([
            `from: ${quote(options.from)}`,
            `to: ${quote(options.to)}`,
            `isOneToOne: ${options.isOneToOne}`,
            `isSetofReturn: ${options.isSetofReturn}`,
          ])}`,
        ]
      : []),
  ])
}

function argsType(routine: Routine, { typeOf }: ValueTypes): string {
  const given = inputs(routine)
  if (given.length === 0) return 'never'
  const args = given.map(
    ({ name, type, hasDefault }) => `${key(name)}${hasDefault ? '?' : ''}: ${typeOf(type)}`,
  )
  return `{ ${args.toSorted(byText).join('; ')} }`
}

/** A set declared with ROWS 1 is written as a single row, because the library builds the list. */
function returnsType(routine: Routine, values: ValueTypes, isOneToOne: boolean): string {
  const { typeOf, columnType, relationOf } = values
  const many = routine.returnsSet && !isOneToOne ? '[]' : ''
  const declared = outputs(routine)
  const relation = relationOf(routine.returnType)
  const value = typeOf(routine.returnType)
  if (value === 'Record<string, unknown>' && declared.length > 0)
    return `${block(declared.map(({ name, type }) => `${key(name)}: ${typeOf(type)}`).toSorted(byText))}${many}`
  if (relation)
    return `${block(relation.columns.map(each => `${key(each.name)}: ${columnType(each)}`).toSorted(byText))}${many}`
  return many && /[|&]/.test(value) ? `(${value})${many}` : `${value}${many}`
}

/** The relation whose rows the function returns, and the one whose row it takes. */
function setofOptions(routine: Routine, { relationOf }: ValueTypes) {
  const to = relationOf(routine.returnType)
  if (!to || to.schema !== routine.schema) return
  const given = inputs(routine)
  const from = given.length === 1 ? relationOf(given[0]!.type) : undefined
  return {
    from: from?.schema === routine.schema ? from.name : '*',
    to: to.name,
    isOneToOne: !routine.returnsSet || routine.isOneRow,
    isSetofReturn: routine.returnsSet,
  }
}
