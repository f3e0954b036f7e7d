// JSON objects and pages as SQL. Every object is an expression, so that a whole answer is one statement.
import { identifier, literal } from '#src/kernel/postgres/sql.ts'
import { isCurrentSql } from './answer-sql.ts'
import type { Catalog, Relation } from './catalog.ts'
import { base64Sql, beyondSql, cursorSql, reversed } from './keyset-sql.ts'
import { orderSql } from './level-sql.ts'
import { linkSql } from './link-sql.ts'
import type {
  AggregateContent,
  Call,
  Constant,
  EdgeContent,
  Member,
  Page,
  PageContent,
  PageFact,
  RootContent,
  RowContent,
  Show,
} from './objects.ts'
import { valueSql } from './value-sql.ts'
import { wheresSql } from './where-sql.ts'
import { qualified, Writer } from './writer.ts'

/** One statement for all fields of an answer. Its only row has the JSON text. */
export function objectsSql(
  catalog: Catalog,
  members: readonly Member<RootContent>[],
): { sql: string; writer: Writer } {
  const writer = new Writer(catalog.extension('vector'))
  const json = objectSql(members, content => rootSql(writer, content))
  return { sql: `select (${json})::text where ${isCurrentSql(catalog)}`, writer }
}

/** Postgres allows 100 arguments of a function. */
const maxPairs = 50

export function objectSql<C>(members: readonly Member<C>[], contentSql: (content: C) => string): string {
  const pairs = members.map(({ name, content }) => `${literal(name)}, ${contentSql(content)}`)
  if (pairs.length <= maxPairs) return `pg_catalog.json_build_object(${pairs.join(', ')})`
  const parts: string[] = []
  for (let at = 0; at < pairs.length; at += maxPairs) {
    const part = `pg_catalog.json_build_object(${pairs.slice(at, at + maxPairs).join(', ')})::text`
    parts.push(`pg_catalog.substr(pg_catalog."left"(${part}, -1), 2)`)
  }
  return `('{' || ${parts.join(` || ',' || `)} || '}')::json`
}

export const constantSql = ({ text }: Constant): string => `${literal(text)}::text`

function rootSql(writer: Writer, content: RootContent): string {
  switch (content.kind) {
    case 'constant':
      return constantSql(content)
    case 'nothing':
      return 'null'
    case 'value':
      return shownSql(`${callSql(writer, content.from)}`, content.show)
    case 'page':
      return fromSql(writer, content.from, (from, alias) => {
        const isOfTable = !('routine' in content.from || content.from.isView)
        return pageSql(writer, content.page, { from, alias, joined: [], isOfTable })
      })
    case 'row':
      return fromSql(writer, content.from, (from, alias) =>
        rowSql(writer, content.members, from, alias, wheresSql(writer, content.where, alias)),
      )
  }
}

/** A function is called once, however often its rows are used. */
function fromSql(
  writer: Writer,
  from: Relation | Call,
  sqlOf: (from: string, alias: string) => string,
): string {
  const alias = writer.alias()
  if (!('routine' in from)) return sqlOf(`${qualified(from)} ${alias}`, alias)
  writer.rows.set(alias, `(row(${alias}.*))::${qualified(from.routine.relation!)}`)
  const rows = `select * from ${callSql(writer, from)} f`
  const isNothing = from.routine.isSet ? '' : ' where not (f is null)'
  return `(with called as materialized (${rows}${isNothing}) select ${sqlOf(`called ${alias}`, alias)})`
}

const callSql = (writer: Writer, { routine, arguments: given }: Call): string =>
  `${qualified(routine)}(${given
    .map(({ name, type, slot }) => `${identifier(name)} => ${writer.parameter(slot)}::${type}`)
    .join(', ')})`

/** The object of the only row, or null. */
function rowSql(
  writer: Writer,
  members: readonly Member<RowContent>[],
  from: string,
  alias: string,
  conditions: readonly string[],
): string {
  return `(select ${rowObjectSql(writer, members, alias)} from ${from}${whereSql(conditions)} limit 1)`
}

const whereSql = (conditions: readonly string[]): string =>
  conditions.length > 0 ? ` where ${conditions.join(' and ')}` : ''

/** With `joins`, rows of to-one relations are joined to the row by the caller. Without, each is a subquery. */
export const rowObjectSql = (
  writer: Writer,
  members: readonly Member<RowContent>[],
  alias: string,
  joins?: string[],
): string => objectSql(members, content => rowContentSql(writer, content, alias, joins))

function rowContentSql(writer: Writer, content: RowContent, alias: string, joins?: string[]): string {
  switch (content.kind) {
    case 'constant':
      return constantSql(content)
    case 'value':
      return shownSql(valueSql(writer, content.value, alias), content.show)
    case 'node id': {
      const { relation, key } = content
      const values = key.map(({ name }) => `${alias}.${identifier(name)}`)
      return base64Sql(
        `pg_catalog.json_build_array(${[literal(relation.schema), literal(relation.name)].map(each => `${each}::text`).join(', ')}, ${values.join(', ')})`,
      )
    }
    case 'row': {
      const own = writer.alias()
      const { from, joined } = linkSql(writer, content.link, alias, own)
      const isCalled = content.link.kind === 'function'
      const row = rowSql(writer, content.members, from, own, isCalled ? [`not (${own} is null)`] : joined)
      if (!joins || isCalled) return row
      joins.push(` left join lateral ${row} j${own} (o) on true`)
      return `j${own}.o`
    }
    case 'page': {
      const own = writer.alias()
      const { from, joined } = linkSql(writer, content.link, alias, own)
      return pageSql(writer, content.page, { from, alias: own, joined, isOfTable: false })
    }
  }
}

function shownSql(value: string, { isText, isList, names }: Show): string {
  if (names) {
    const cases = [...names].map(([label, name]) => `when ${literal(label)} then ${literal(name)}`).join(' ')
    const named = (text: string) => `case ${text} ${cases} else ${text} end`
    return isList
      ? `(select pg_catalog.json_agg(${named('e')}) from pg_catalog.unnest((${value})::text[]) e)`
      : named(`(${value})::text`)
  }
  if (isText) return isList ? `(${value})::text[]` : `(${value})::text`
  return value
}

/** A page as one expression: its rows in a subquery, and what is shown of them outside. */
const pageSql = (writer: Writer, page: Page, source: PageSource): string =>
  new PageSql(writer, page, source).sql()

interface PageSource {
  readonly from: string
  readonly alias: string
  /** The conditions that join the rows to another row. */
  readonly joined: readonly string[]
  /** Of a whole table, rather than of rows of another row, of a view or of a function. */
  readonly isOfTable: boolean
}

class PageSql {
  readonly #writer: Writer
  readonly #page: Page
  readonly #from: string
  readonly #alias: string
  readonly #joined: readonly string[]
  readonly #isOfTable: boolean
  #written: readonly string[] | undefined
  /** Columns of the subquery: edges, and what the facts need. */
  readonly #columns: string[] = []
  readonly #joins: string[] = []
  /** One row more than the page has says whether there are more. */
  #isProbed = false
  #isNumbered = false
  #hasCursors = false

  constructor(writer: Writer, page: Page, { from, alias, joined, isOfTable }: PageSource) {
    this.#writer = writer
    this.#page = page
    this.#from = from
    this.#alias = alias
    this.#joined = joined
    this.#isOfTable = isOfTable
  }

  /** Written when first used: Postgres rejects parameters that the statement does not mention. */
  get #conditions(): readonly string[] {
    this.#written ??= [...this.#joined, ...wheresSql(this.#writer, this.#page.where, this.#alias)]
    return this.#written
  }

  sql(): string {
    const { members, limit, offset, isBackward } = this.#page
    const facts = members.flatMap(({ content }) => (content.kind === 'page info' ? content.members : []))
    this.#isProbed = facts.some(({ content }) => content.kind === (isBackward ? 'has previous' : 'has next'))
    this.#hasCursors = facts.some(({ content }) => content.kind.endsWith('cursor'))
    const hasEdges = members.some(({ content }) => content.kind === 'edges')
    this.#isNumbered = this.#isProbed || this.#hasCursors || (isBackward && hasEdges)
    const object = objectSql(members, content => this.#contentSql(content))
    const order = isBackward ? reversed(this.#page.order) : this.#page.order
    const orderBy = orderSql(this.#writer, order, this.#alias)
    if (this.#isNumbered) this.#columns.push(`pg_catalog.row_number() over (${orderBy}) as n`)
    if (this.#hasCursors) this.#columns.push(`${this.#cursorSql()} as c`)
    if (this.#columns.length === 0) return `(select ${object})`
    const rows = [
      `select ${this.#columns.join(', ')} from ${this.#from}${this.#joins.join('')}${whereSql([...this.#conditions, ...this.#beyond()])}`,
      orderBy,
      `limit ${limit + (this.#isProbed ? 1 : 0)}`,
      offset === undefined ? '' : `offset ${this.#writer.parameter(offset)}::bigint`,
    ]
    return `(select ${object} from (${rows.filter(each => each !== '').join(' ')}) p)`
  }

  #beyond(): string[] {
    const { cursor, isBackward, order } = this.#page
    return cursor
      ? [beyondSql(this.#writer, order, cursor, this.#alias, isBackward ? 'before' : 'after')]
      : []
  }

  #cursorSql(): string {
    return cursorSql(this.#writer, this.#page.order, this.#alias)
  }

  #contentSql(content: PageContent): string {
    switch (content.kind) {
      case 'constant':
        return constantSql(content)
      case 'edges': {
        const name = `e${this.#columns.length}`
        this.#columns.push(`${objectSql(content.members, each => this.#edgeSql(each))} as ${name}`)
        return `coalesce(pg_catalog.json_agg(p.${name}${this.#rowOrder()})${this.#ownRows()}, '[]')`
      }
      case 'page info':
        return objectSql(content.members, each => this.#factSql(each))
      case 'total':
        return `(select pg_catalog.count(*) from ${this.#from}${whereSql(this.#conditions)})`
      case 'aggregate':
        return `(select ${objectSql(content.members, each => aggregateSql(each, this.#alias))} from ${this.#from}${whereSql(this.#conditions)})`
    }
  }

  #edgeSql(content: EdgeContent): string {
    switch (content.kind) {
      case 'constant':
        return constantSql(content)
      case 'cursor':
        return this.#cursorSql()
      case 'node':
        return rowObjectSql(
          this.#writer,
          content.members,
          this.#alias,
          this.#isStartOfTable() ? this.#joins : undefined,
        )
    }
  }

  /**
   * The first rows of a table in the order of its key. Only these are read, so a join costs no more than subqueries, and
   * Postgres remembers joined rows that repeat. If rows had to be sorted first, all of them would be joined.
   */
  #isStartOfTable(): boolean {
    const { isInKeyOrder, where, cursor, offset } = this.#page
    return this.#isOfTable && isInKeyOrder && where.length === 0 && !cursor && offset === undefined
  }

  /** If another aggregate has an order, Postgres sorts the rows by it for all aggregates that have none. */
  #rowOrder(): string {
    if (!this.#isNumbered) return ''
    return this.#page.isBackward ? ' order by p.n desc' : ' order by p.n'
  }

  /** Leaves out the row that was read to see whether there are more. */
  #ownRows(): string {
    if (!this.#isProbed) return ''
    const { limit, offset } = this.#page
    // Rows are numbered before the offset applies.
    const skipped = offset === undefined ? '' : ` + ${this.#writer.parameter(offset)}::bigint`
    return ` filter (where p.n <= ${limit}${skipped})`
  }

  #factSql(fact: PageFact): string {
    const { isBackward, limit } = this.#page
    switch (fact.kind) {
      case 'constant':
        return constantSql(fact)
      case 'has next':
        return isBackward ? this.#isOutside('after') : `pg_catalog.count(*) > ${limit}`
      case 'has previous':
        return isBackward ? `pg_catalog.count(*) > ${limit}` : this.#isOutside('before')
      case 'start cursor':
        return this.#outermost(isBackward)
      case 'end cursor':
        return this.#outermost(!isBackward)
    }
  }

  #outermost(isLast: boolean): string {
    return `(pg_catalog.array_agg(p.c order by p.n${isLast ? ' desc' : ''})${this.#ownRows()})[1]`
  }

  /** Whether there are rows on the side of the cursor, or of the offset, where the page does not go. */
  #isOutside(side: 'after' | 'before'): string {
    const { cursor, offset, order } = this.#page
    if (offset !== undefined)
      return `(${this.#writer.parameter(offset)}::bigint > 0 and exists (select from ${this.#from}${whereSql(this.#conditions)}))`
    if (!cursor) return 'false'
    const beyond = beyondSql(this.#writer, order, cursor, this.#alias, side === 'after' ? 'before' : 'after')
    return `exists (select from ${this.#from}${whereSql([...this.#conditions, `not coalesce(${beyond}, false)`])})`
  }
}

function aggregateSql(content: AggregateContent, alias: string): string {
  switch (content.kind) {
    case 'constant':
      return constantSql(content)
    case 'count':
      return 'pg_catalog.count(*)'
    case 'of columns':
      return objectSql(content.members, each => {
        if (each.kind === 'constant') return constantSql(each)
        const value = `${alias}.${identifier(each.column.name)}`
        if (each.isBoolean) return `pg_catalog.${content.call === 'min' ? 'bool_and' : 'bool_or'}(${value})`
        return `pg_catalog.${content.call}(${value})${each.isText ? '::text' : ''}`
      })
  }
}
