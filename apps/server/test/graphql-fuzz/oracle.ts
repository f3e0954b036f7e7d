// A document as plain SQL with literal values, run with the role and claims of the caller on a separate connection. It uses
// no SQL generation of the server.
import pg from 'pg'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import {
  type Asking,
  columnsOf,
  type Filter,
  type Link,
  type OrderTerm,
  type PageQuery,
  type RowQuery,
  type Scalar,
} from './document.ts'

export interface SqlOracle {
  /** The answer to the document, as JSON text. */
  answer(claims: { role: string }, statement: string): Promise<string>
  close(): Promise<void>
}

export function openSqlOracle(address: ServerAddress, database: string): SqlOracle {
  const { host, port, user, password } = address
  const pool = new pg.Pool({ host, port, user, password, database, max: 4 })
  return {
    async answer(claims, statement) {
      const client = await pool.connect()
      try {
        const settings = `set_config('request.jwt.claims', ${literal(JSON.stringify(claims))}, true)`
        await client.query(`begin; set local role ${claims.role}; select ${settings}`)
        const { rows } = await client.query<{ body: string }>(`select ${statement}::text as body`)
        return rows[0]!.body
      } finally {
        await client.query('rollback')
        client.release()
      }
    },
    close: () => pool.end(),
  }
}

type Viewer = Pick<Asking, 'schema' | 'isAnon'>

const defaultRows = 30

/**
 * A page as a JSON object. `as` is the alias of its rows; each level adds a letter. A cursor is the id of its row, and the
 * rows behind it are those with a higher row number.
 */
export function pageSql(viewer: Viewer, page: PageQuery, as = 'b', within = 'true'): string {
  const { table, after, before, node } = page
  const columns = columnsOf(viewer, table).map(({ name }) => name)
  const limit = page.first ?? page.last ?? defaultRows
  const isBackward = page.last !== undefined || before !== undefined
  const placeOf = (cursor: readonly Scalar[]) => `(select place from ranked where id = ${cursor.at(-1)})`
  const isCut = `(select count(*) > ${limit} from candidates)`
  const hasOthers = '((select count(*) from matching) > (select count(*) from candidates))'
  const cursor = cursorSql(page.order, as)
  const cursorAt = (end: 'asc' | 'desc') => `(select ${cursor} from page ${as} order by place ${end} limit 1)`
  const info: Record<string, string> = {
    hasNextPage: isBackward ? hasOthers : isCut,
    hasPreviousPage: isBackward ? isCut : hasOthers,
    startCursor: cursorAt('asc'),
    endCursor: cursorAt('desc'),
  }
  const edge = objectSql([
    ...(page.hasCursors ? [['cursor', cursor] as const] : []),
    ['node', rowSql(viewer, node, as)],
  ])
  const members: Record<string, string | false> = {
    __typename: page.hasTypename && literal(`${table}Connection`),
    edges: page.hasEdges && `(select coalesce(json_agg(${edge} order by ${as}.place), '[]') from page ${as})`,
    totalCount: page.hasTotal && '(select count(*) from matching)',
    pageInfo: page.info.length > 0 && objectSql(page.info.map(name => [name, info[name]!])),
  }
  const answer = objectSql(
    Object.entries(members).flatMap(([name, sql]) => (sql ? [[name, sql] as const] : [])),
  )
  return `(
    with ranked as (
      select ${columns.join(', ')}, row_number() over (order by ${orderSql(page.order)}) as place from public.${table}
    ), matching as (
      select * from ranked ${as} where ${within} and ${page.filter ? filterSql(page.filter, as) : 'true'}
    ), candidates as (
      select * from matching
      where ${after ? `place > ${placeOf(after)}` : 'true'} and ${before ? `place < ${placeOf(before)}` : 'true'}
      order by place offset ${page.offset ?? 0}
    ), page as (
      select * from candidates order by place ${isBackward ? 'desc' : 'asc'} limit ${limit}
    )
    select ${answer}
  )`
}

function rowSql(viewer: Viewer, row: RowQuery, as: string): string {
  const types = new Map(columnsOf(viewer, row.table).map(({ name, type }) => [name, type]))
  const inner = `${as}e`
  const isText = (name: string) => types.get(name) === 'bigint' || types.get(name) === 'numeric'
  return objectSql([
    ...row.columns.map(name => [name, `${as}.${name}${isText(name) ? '::text' : ''}`] as const),
    ...row.ones.map(
      ({ link, row: other }) =>
        [
          link.field,
          `(select ${rowSql(viewer, other, inner)} from public.${link.target} ${inner} where ${linkSql(link, as)})`,
        ] as const,
    ),
    ...row.manies.map(
      ({ link, page }) => [link.field, pageSql(viewer, page, inner, linkSql(link, as))] as const,
    ),
  ])
}

const objectSql = (members: readonly (readonly [name: string, sql: string])[]): string =>
  `json_build_object(${members.map(([name, sql]) => `${literal(name)}, ${sql}`).join(', ')})`

const linkSql = ({ own, theirs }: Link, as: string): string => `${as}e.${theirs} = ${as}.${own}`

const orderSql = (order: readonly OrderTerm[]): string =>
  [
    ...order.map(
      ({ column, isDescending, areNullsFirst }) =>
        `${column} ${isDescending ? 'desc' : 'asc'} nulls ${areNullsFirst ? 'first' : 'last'}`,
    ),
    'id',
  ].join(', ')

/** The values of the order and the id in base64, in which Postgres breaks lines. */
function cursorSql(order: readonly OrderTerm[], as: string): string {
  const values = [...order.map(({ column }) => column), 'id'].map(column => `${as}.${column}`).join(', ')
  return `replace(encode(convert_to(jsonb_build_array(${values})::text, 'utf8'), 'base64'), chr(10), '')`
}

function filterSql(filter: Filter, as: string): string {
  switch (filter.kind) {
    case 'test':
      return testSql(filter, `${as}.${filter.column}`)
    case 'and':
    case 'or':
      return `(${filter.parts.map(part => filterSql(part, as)).join(` ${filter.kind} `)})`
    case 'not':
      return `(not ${filterSql(filter.part, as)})`
    case 'one':
    case 'many': {
      const { link, part } = filter
      const how = filter.kind === 'one' ? 'some' : filter.how
      const inner = filterSql(part, `${as}e`)
      const linked = `select from public.${link.target} ${as}e where ${linkSql(link, as)}`
      if (how === 'every') return `(not exists (${linked} and not ${inner}))`
      return `(${how === 'none' ? 'not ' : ''}exists (${linked} and ${inner}))`
    }
  }
}

const symbols: Record<string, string> = { eq: '=', neq: '<>', lt: '<', lte: '<=', gt: '>', gte: '>=' }

function testSql({ operator, value }: Extract<Filter, { kind: 'test' }>, column: string): string {
  if (operator === 'is') return `(${column} is ${value === 'NULL' ? '' : 'not '}null)`
  if (operator === 'startsWith') return `starts_with(${column}, ${literal(value as Scalar)})`
  if (operator !== 'in') return `(${column} ${symbols[operator]} ${literal(value as Scalar)})`
  const list = value as readonly Scalar[]
  return list.length === 0 ? 'false' : `(${column} in (${list.map(literal).join(', ')}))`
}

const literal = (value: Scalar): string => `'${String(value).replaceAll("'", "''")}'`
