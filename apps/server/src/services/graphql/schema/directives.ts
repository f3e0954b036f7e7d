// Settings in comments of the database: `comment on table t is '@graphql({"name": "Thing"})'`.
import { SchemaProblem } from './problem.ts'

export interface SchemaDirective {
  inflect_names?: boolean
  max_rows?: number
}

export interface RelationDirective {
  name?: string
  description?: string
  max_rows?: number
  primary_key_columns?: string[]
  aggregate?: { enabled?: boolean }
  foreign_keys?: ForeignKeyDirective[]
}

/** A foreign key of a view. */
export interface ForeignKeyDirective {
  local_name?: string
  local_columns: string[]
  foreign_name?: string
  foreign_schema: string
  foreign_table: string
  foreign_columns: string[]
}

export interface NameDirective {
  name?: string
  description?: string
}

export interface ConstraintDirective {
  /** The field of the table that has the foreign key. */
  foreign_name?: string
  /** The field of the table that it refers to. */
  local_name?: string
}

export interface EnumDirective extends NameDirective {
  mappings?: Record<string, string>
}

type Check = (value: unknown) => boolean
const isText: Check = value => typeof value === 'string'
const isFlag: Check = value => typeof value === 'boolean'
const isCount: Check = value => Number.isInteger(value) && (value as number) > 0
const isTexts: Check = value => Array.isArray(value) && value.every(isText)
const isObject: Check = value => typeof value === 'object' && value !== null && !Array.isArray(value)
const isSwitch: Check = value => isObject(value) && [true, false, undefined].includes(enabledIn(value))
const enabledIn = (value: unknown) => (value as { enabled?: boolean }).enabled
const isMapping: Check = value => isObject(value) && Object.values(value as object).every(isText)

const foreignKey = new Map<string, Check>([
  ['local_name', isText],
  ['local_columns', isTexts],
  ['foreign_name', isText],
  ['foreign_schema', isText],
  ['foreign_table', isText],
  ['foreign_columns', isTexts],
])
const needed = ['local_columns', 'foreign_schema', 'foreign_table', 'foreign_columns']
const isForeignKeys: Check = value =>
  Array.isArray(value) &&
  value.every(
    each =>
      isObject(each) &&
      needed.every(name => Object.hasOwn(each as object, name)) &&
      Object.entries(each as object).every(([name, part]) => foreignKey.get(name)?.(part) ?? true),
  )

const checks = new Map<string, Check>([
  ['inflect_names', isFlag],
  ['max_rows', isCount],
  ['name', isText],
  ['description', isText],
  ['primary_key_columns', isTexts],
  ['aggregate', isSwitch],
  ['foreign_keys', isForeignKeys],
  ['foreign_name', isText],
  ['local_name', isText],
  ['mappings', isMapping],
])

/** A message about a comment does not name what the role cannot see. */
export const hiddenName = 'an object that this role does not see'

/** `of` names the commented object in the message of an error. */
export function directiveIn<T extends object>(comment: string | null | undefined, of: string): Partial<T> {
  const text = comment ? settingsIn(comment) : undefined
  if (text === undefined) return {}
  const directive = parsed(text, of)
  if (!isObject(directive)) throw new SchemaProblem(`The @graphql comment of ${of} is not a JSON object`)
  for (const [name, value] of Object.entries(directive as object))
    if (checks.get(name)?.(value) === false)
      throw new SchemaProblem(`The @graphql comment of ${of} has a wrong value for "${name}"`)
  return directive as Partial<T>
}

const start = '@graphql('

/** What the first @graphql has in its parentheses, which end with the last one of the comment. */
function settingsIn(comment: string): string | undefined {
  const from = comment.indexOf(start)
  const end = comment.lastIndexOf(')')
  return from >= 0 && end >= from + start.length ? comment.slice(from + start.length, end) : undefined
}

function parsed(text: string, of: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new SchemaProblem(`The @graphql comment of ${of} is not valid JSON`)
  }
}
