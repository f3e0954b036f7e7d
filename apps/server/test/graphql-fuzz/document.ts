// Random documents: what they ask for, and their text.
import type { Random } from '../fuzz/random.ts'
import { type ColumnType, type FuzzColumn, type FuzzRow, type FuzzSchema, words } from './world.ts'

export type Scalar = string | number | boolean | null

export type Filter =
  | {
      readonly kind: 'test'
      readonly column: string
      readonly type: ColumnType
      readonly operator: string
      readonly value: Scalar | readonly Scalar[]
    }
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Filter[] }
  | { readonly kind: 'not'; readonly part: Filter }
  | { readonly kind: 'one'; readonly link: Link; readonly part: Filter }
  | {
      readonly kind: 'many'
      readonly link: Link
      readonly how: 'some' | 'none' | 'every'
      readonly part: Filter
    }

/** A foreign key, followed from the row that has it or to it. */
export interface Link {
  readonly field: string
  readonly target: string
  readonly own: string
  readonly theirs: string
}

export interface OrderTerm {
  readonly column: string
  readonly isDescending: boolean
  readonly areNullsFirst: boolean
}

export interface PageQuery {
  readonly table: string
  readonly filter?: Filter
  readonly order: readonly OrderTerm[]
  readonly first?: number
  readonly last?: number
  readonly offset?: number
  readonly after?: readonly Scalar[]
  readonly before?: readonly Scalar[]
  readonly hasTypename: boolean
  readonly hasEdges: boolean
  readonly hasTotal: boolean
  /** Fields of `pageInfo`. */
  readonly info: readonly string[]
  readonly hasCursors: boolean
  readonly node: RowQuery
}

export interface RowQuery {
  readonly table: string
  readonly columns: readonly string[]
  readonly ones: readonly { readonly link: Link; readonly row: RowQuery }[]
  readonly manies: readonly { readonly link: Link; readonly page: PageQuery }[]
}

export interface Asking {
  readonly schema: FuzzSchema
  readonly isAnon: boolean
  /** The rows that the caller sees. */
  readonly rows: ReadonlyMap<string, readonly FuzzRow[]>
  readonly random: Random
}

/** The columns that the caller may read. */
export function columnsOf(asking: Pick<Asking, 'schema' | 'isAnon'>, name: string): FuzzColumn[] {
  const table = asking.schema.tables.find(each => each.name === name)!
  return table.columns.filter(each => !asking.isAnon || !table.hidden.includes(each.name))
}

/** The field of a foreign key has the name of the table, or of the column without `_id`. */
const onesOf = ({ schema }: Asking, name: string): Link[] =>
  schema.keys
    .filter(each => each.table === name)
    .map(({ column, target }) => ({ field: target, target, own: column, theirs: 'id' }))

const maniesOf = ({ schema }: Asking, name: string): Link[] =>
  schema.keys
    .filter(each => each.target === name)
    .map(({ table, column }) => ({ field: `${table}Collection`, target: table, own: 'id', theirs: column }))

export function randomPage(asking: Asking, table: string, depth: number): PageQuery {
  const { random } = asking
  const order = random.sample(columnsOf(asking, table), random.int(0, 2)).map(({ name }) => ({
    column: name,
    isDescending: random.chance(0.5),
    areNullsFirst: random.chance(0.5),
  }))
  const isBackward = random.chance(0.25)
  const count = random.chance(0.7) ? { [isBackward ? 'last' : 'first']: random.int(0, 6) } : {}
  const rows = asking.rows.get(table)!
  const cursor =
    rows.length > 0 && random.chance(0.3)
      ? { [isBackward ? 'before' : 'after']: cursorOf(random.pick(rows), order) }
      : {}
  const hasEdges = random.chance(0.9)
  const hasTotal = random.chance(0.4)
  const info = random.chance(0.4) ? random.sample(infoFields, random.int(1, 4)) : []
  const isPlain = Object.keys(cursor).length === 0 && !isBackward
  return {
    table,
    order,
    ...count,
    ...cursor,
    ...(isPlain && random.chance(0.2) && { offset: random.int(0, 4) }),
    ...(random.chance(0.5) && { filter: randomFilter(asking, table, 2) }),
    // A selection is never empty.
    hasTypename: (!hasEdges && !hasTotal && info.length === 0) || random.chance(0.1),
    hasEdges,
    hasTotal,
    info,
    hasCursors: random.chance(0.3),
    node: randomRow(asking, table, depth),
  }
}

export const cursorOf = (row: FuzzRow, order: readonly OrderTerm[]): Scalar[] =>
  [...order.map(({ column }) => column), 'id'].map(column => row[column]!)

function randomRow(asking: Asking, table: string, depth: number): RowQuery {
  const { random } = asking
  const columns = random.sample(columnsOf(asking, table), random.int(1, 4)).map(({ name }) => name)
  const deeper = <T>(from: T[]): T[] => (depth > 0 ? random.sample(from, random.int(0, 2)) : [])
  return {
    table,
    columns,
    ones: deeper(onesOf(asking, table)).map(link => ({
      link,
      row: randomRow(asking, link.target, depth - 1),
    })),
    manies: deeper(maniesOf(asking, table)).map(link => ({
      link,
      page: randomPage(asking, link.target, depth - 1),
    })),
  }
}

const infoFields = ['hasNextPage', 'hasPreviousPage', 'startCursor', 'endCursor']

const operators: Record<ColumnType, readonly string[]> = {
  int: ['eq', 'neq', 'lt', 'lte', 'gt', 'gte', 'in', 'is'],
  bigint: ['eq', 'neq', 'lt', 'gte', 'in', 'is'],
  numeric: ['eq', 'neq', 'lte', 'gt', 'in', 'is'],
  text: ['eq', 'neq', 'lt', 'gt', 'in', 'is', 'startsWith'],
  bool: ['eq', 'is'],
}

function randomFilter(asking: Asking, table: string, depth: number): Filter {
  const { random } = asking
  const kinds = depth > 0 ? ['test', 'test', 'and', 'or', 'not', 'one', 'many'] : ['test']
  const kind = random.pick(kinds)
  const inner = (of = table) => randomFilter(asking, of, depth - 1)
  const ones = onesOf(asking, table)
  const manies = maniesOf(asking, table)
  if (kind === 'and' || kind === 'or') return { kind, parts: [inner(), inner()] }
  if (kind === 'not') return { kind, part: inner() }
  if (kind === 'one' && ones.length > 0) {
    const link = random.pick(ones)
    return { kind, link, part: inner(link.target) }
  }
  if (kind === 'many' && manies.length > 0) {
    const link = random.pick(manies)
    return { kind, link, how: random.pick(['some', 'none', 'every'] as const), part: inner(link.target) }
  }
  const { name, type } = random.pick(columnsOf(asking, table))
  const operator = random.pick(operators[type])
  const value =
    operator === 'is'
      ? random.pick(['NULL', 'NOT_NULL'])
      : operator === 'in'
        ? Array.from({ length: random.int(0, 3) }, () => randomValue(type, random))
        : randomValue(type, random)
  return { kind: 'test', column: name, type, operator, value }
}

function randomValue(type: ColumnType, random: Random): Scalar {
  switch (type) {
    case 'int':
      return random.int(-3, 6)
    case 'bigint':
      return `${random.int(0, 3)}00000000000`
    case 'numeric':
      return `${random.int(-2, 2)}.${random.int(0, 3)}`
    case 'text':
      return random.pick(words)
    case 'bool':
      return random.chance(0.5)
  }
}

/** A filter as the value of a variable. */
function filterValue(filter: Filter): object {
  switch (filter.kind) {
    case 'test':
      return { [filter.column]: { [filter.operator]: filter.value } }
    case 'and':
    case 'or':
      return { [filter.kind]: filter.parts.map(filterValue) }
    case 'not':
      return { not: filterValue(filter.part) }
    case 'one':
      return { [filter.link.field]: filterValue(filter.part) }
    case 'many':
      return { [filter.link.field]: { [filter.how]: filterValue(filter.part) } }
  }
}

/** A document as it is sent. */
export interface DocumentBody {
  readonly query: string
  readonly variables: Readonly<Record<string, unknown>>
}

export function documentOf(page: PageQuery): DocumentBody {
  const variables = new Map<string, [type: string, value: unknown]>()
  const field = pageText(page, `${page.table}Collection`, variables)
  const declared = [...variables].map(([name, [type]]) => `$${name}: ${type}`).join(', ')
  return {
    query: `query${declared && `(${declared})`} { ${field} }`,
    variables: Object.fromEntries([...variables].map(([name, [, value]]) => [name, value])),
  }
}

/** The text of a page, with its filters in variables. */
function pageText(
  page: PageQuery,
  field: string,
  variables: Map<string, [type: string, value: unknown]>,
): string {
  const variable = (type: string, value: unknown): string => {
    const name = `v${variables.size}`
    variables.set(name, [type, value])
    return `$${name}`
  }
  const given: string[] = []
  for (const name of ['first', 'last', 'offset'] as const)
    if (page[name] !== undefined) given.push(`${name}: ${page[name]}`)
  for (const name of ['after', 'before'] as const)
    if (page[name]) given.push(`${name}: ${variable('Cursor', base64(page[name]))}`)
  if (page.filter) given.push(`filter: ${variable(`${page.table}Filter`, filterValue(page.filter))}`)
  if (page.order.length > 0)
    given.push(
      `orderBy: [${page.order
        .map(
          each =>
            `{${each.column}: ${each.isDescending ? 'Desc' : 'Asc'}Nulls${each.areNullsFirst ? 'First' : 'Last'}}`,
        )
        .join(', ')}]`,
    )
  const members = [
    page.hasTypename ? '__typename' : '',
    page.hasEdges
      ? `edges { ${page.hasCursors ? 'cursor ' : ''}node { ${rowText(page.node, variables)} } }`
      : '',
    page.hasTotal ? 'totalCount' : '',
    page.info.length > 0 ? `pageInfo { ${page.info.join(' ')} }` : '',
  ]
  return `${field}${given.length > 0 ? `(${given.join(', ')})` : ''} { ${members.join(' ')} }`
}

/** Numbers are written as they are, also big ones, which are strings here. */
export const base64 = (values: readonly Scalar[]): string =>
  Buffer.from(
    `[${values.map(each => (/^-?\d+(\.\d+)?$/.test(String(each)) ? each : JSON.stringify(each))).join(', ')}]`,
  ).toString('base64')

const rowText = (row: RowQuery, variables: Map<string, [string, unknown]>): string =>
  [
    ...row.columns,
    ...row.ones.map(({ link, row: inner }) => `${link.field} { ${rowText(inner, variables)} }`),
    ...row.manies.map(({ link, page }) => pageText(page, link.field, variables)),
  ].join(' ')
