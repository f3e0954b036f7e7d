// Conditions as SQL.

import type { FunctionName } from './catalog.ts'
import type { Operator } from './items.ts'
import type { Embed, Level, Value, Where } from './level.ts'
import { linkSql } from './link-sql.ts'
import { comparable, json, jsonb, text as textType, tsvector, valueSql, varchar } from './value-sql.ts'
import { qualified, type Writer } from './writer.ts'

/** The conditions that rows of this level must meet, including those of inner embeds. */
export function conditionsOf(writer: Writer, level: Level, alias: string): string[] {
  return [
    ...wheresSql(writer, level.where, alias),
    ...level.embeds.filter(({ isInner }) => isInner).map(embed => existsSql(writer, embed, alias)),
  ]
}

export const wheresSql = (writer: Writer, wheres: readonly Where[], alias: string): string[] =>
  wheres.map(where => whereSql(writer, where, alias))

function existsSql(writer: Writer, { link, level }: Embed, alias: string): string {
  const own = writer.alias()
  const { from, joined } = linkSql(writer, link, alias, own)
  const conditions = [...joined, ...conditionsOf(writer, level, own)]
  return `exists (select from ${from}${conditions.length > 0 ? ` where ${conditions.join(' and ')}` : ''})`
}

function whereSql(writer: Writer, where: Where, alias: string): string {
  switch (where.kind) {
    case 'group': {
      const inner = where.conditions.map(each => whereSql(writer, each, alias)).join(` ${where.joiner} `)
      return where.isNegated ? `not (${inner})` : `(${inner})`
    }
    case 'exists': {
      const exists = existsSql(writer, where.embed, alias)
      return where.isNegated ? `not ${exists}` : exists
    }
    case 'test': {
      const sql = testSql(writer, where, alias)
      return where.test.isNegated ? `not (${sql})` : sql
    }
  }
}

const symbols: Partial<Record<Operator, string>> = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  like: 'like',
  ilike: 'ilike',
  match: '~',
  imatch: '~*',
  startsWith: '^@',
  isdistinct: 'is distinct from',
  cs: '@>',
  cd: '<@',
  ov: '&&',
  sl: '<<',
  sr: '>>',
  nxr: '&<',
  nxl: '&>',
  adj: '-|-',
}
const queries: Partial<Record<Operator, string>> = {
  fts: 'pg_catalog.to_tsquery',
  plfts: 'pg_catalog.plainto_tsquery',
  phfts: 'pg_catalog.phraseto_tsquery',
  wfts: 'pg_catalog.websearch_to_tsquery',
}

function testSql(writer: Writer, { value, test }: Where & { kind: 'test' }, alias: string): string {
  const { operator, quantifier, slot } = test
  const left = comparable(writer, value, alias)
  const readBy = value.path.length === 0 ? value.column?.representation?.fromText : undefined
  switch (operator) {
    case 'is':
      return `${left} is ${test.truth}`
    case 'in': {
      const list = readBy ? readListSql(readBy, writer.parameter(slot)) : writer.parameter(slot)
      // Postgres has no arrays of arrays, so array columns are compared as text.
      return value.column?.isArray && value.path.length === 0
        ? `${left}::text = any(${list}::text[])`
        : `${left} = any(${list})`
    }
    case 'fts':
    case 'plfts':
    case 'phfts':
    case 'wfts':
      return textSearchSql(writer, value, test, alias)
    case 'l2':
    case 'cosine':
    case 'ip':
      return `(${left} is not null and (${left} ${writer.distance(operator)} ${writer.vector(slot)}) is not null)`
    default: {
      const right = writer.parameter(slot)
      if (quantifier)
        return `${left} ${symbols[operator]} ${quantifier}(${readBy ? readListSql(readBy, right) : right})`
      return `${left} ${symbols[operator]} ${readBy ? `${qualified(readBy)}(${right}::text)` : right}`
    }
  }
}

/** Reads each element of an array of texts as a value of a domain. */
const readListSql = (readBy: FunctionName, list: string): string =>
  `array(select ${qualified(readBy)}(e) from pg_catalog.unnest(${list}::text[]) e)`

const searchable = new Set([textType, varchar, json, jsonb])

function textSearchSql(
  writer: Writer,
  value: Value,
  { operator, config, slot }: (Where & { kind: 'test' })['test'],
  alias: string,
): string {
  const base =
    value.path.length > 0 ? (value.path.at(-1)!.isText ? textType : jsonb) : (value.column?.base ?? 0)
  const configuration = config === undefined ? '' : `${writer.parameter(config)}::regconfig, `
  const text = valueSql(writer, value, alias)
  const document =
    base === tsvector
      ? text
      : `pg_catalog.to_tsvector(${configuration}${searchable.has(base) ? text : `${text}::text`})`
  return `${document} @@ ${queries[operator]}(${configuration}${writer.parameter(slot)})`
}
