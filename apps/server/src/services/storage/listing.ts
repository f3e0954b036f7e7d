// Lists the objects of a bucket under the caller's policies: one folder at a time (v1), or in pages with a cursor (v2).
import { JsonText } from '#src/kernel/json-text.ts'
import { type CallerStatement, statement } from '#src/tenancy/databases.ts'
import { storageRefusal } from './refusals.ts'
import { type RequestContext, type Store, utc } from './store.ts'

export interface FolderListOptions {
  prefix?: string
  limit?: number
  offset?: number
  search?: string | null
  sortBy?: { column?: string; order?: string } | null
}
export interface PageListOptions {
  prefix?: string
  limit?: number
  cursor?: string | null
  with_delimiter?: boolean
  sortBy?: { column?: string; order?: string } | null
}

const columns = ['name', 'updated_at', 'created_at', 'last_accessed_at'] as const
const pageColumns = ['name', 'updated_at', 'created_at'] as const
type Column = (typeof columns)[number]
type Order = 'asc' | 'desc'
const maxFolderEntries = 10_000
const maxPage = 1000
const defaultFolderEntries = 100

const inRange = `bucket_id operator(pg_catalog.=) $1::text and name operator(pg_catalog.>=) $2::text
  and ($3::text is null or name operator(pg_catalog.<) $3::text)`
const rest = `pg_catalog.substr(name, pg_catalog.length($2::text) operator(pg_catalog.+) 1)`
const fields = `'id', o.id, 'updated_at', ${utc('o.updated_at')}, 'created_at', ${utc('o.created_at')},
  'last_accessed_at', ${utc('o.last_accessed_at')}, 'metadata', o.metadata`

/** Folders and files of one level, as one JSON array. Full rows are read only for the returned page. */
function folderSql(column: Column, order: Order): string {
  const sorted =
    column === 'name'
      ? `pg_catalog.lower(e.name) collate "C" ${order}, e.name collate "C" ${order}`
      : `(e.id is null) desc, e.at ${order} nulls last, e.name collate "C" asc`
  const at = column === 'name' ? 'null::timestamptz' : column
  return `
    with found as (select ${rest} as rest, id, ${at} as at from storage.objects where ${inRange}),
    entries as (
      select distinct pg_catalog.split_part(rest, '/', 1) as name, null::uuid as id, null::timestamptz as at
        from found where pg_catalog.strpos(rest, '/') > 0
      union all
      select rest, id, at from found where pg_catalog.strpos(rest, '/') = 0),
    page as (
      select e.name, e.id, pg_catalog.row_number() over (order by ${sorted}) as place from entries e
       where pg_catalog.starts_with(pg_catalog.lower(e.name), pg_catalog.lower($4::text))
       order by place limit $5::bigint offset $6::bigint)
    select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('name', p.name, ${fields}) order by p.place), '[]')
      from page p left join storage.objects o on o.id = p.id`
}

/** A page of full names, with one extra entry that shows whether there is a next page. */
function pageSql(column: Exclude<Column, 'last_accessed_at'>, order: Order, groups: boolean): string {
  const beyond = order === 'asc' ? '>' : '<'
  const key = column === 'name' ? '' : `e.${column}, `
  const from = column === 'name' ? '$5::text' : '$6::timestamptz, $5::text'
  const entries = groups
    ? `select case when pg_catalog.strpos(${rest}, '/') > 0
           then $2::text || pg_catalog.split_part(${rest}, '/', 1) || '/' else name end as name,
         pg_catalog.strpos(${rest}, '/') > 0 as is_folder, (pg_catalog.array_agg(id))[1] as id,
         pg_catalog.min(created_at) as created_at, pg_catalog.min(updated_at) as updated_at
        from storage.objects where ${inRange} group by 1, 2`
    : `select name, false as is_folder, id, created_at, updated_at from storage.objects where ${inRange}`
  return `
    with entries as (${entries}),
    page as (
      select e.* from entries e
       where $5::text is null or (${key}e.name collate "C") ${beyond} (${from})
       order by ${key ? `e.${column} ${order}, ` : ''}e.name collate "C" ${order} limit $4::bigint)
    select p.name, p.is_folder, ${column === 'name' ? 'null' : `p.${column}::text`}, case when p.is_folder
        then pg_catalog.json_build_object('name', p.name, 'key', pg_catalog.split_part(p.name, '/', -2), 'id', null,
           'created_at', ${utc('p.created_at')}, 'updated_at', ${utc('p.updated_at')})
        else pg_catalog.json_build_object('name', p.name, 'key', p.name, ${fields}) end
      from page p left join storage.objects o on o.id = p.id and not p.is_folder
     order by ${key ? `p.${column} ${order}, ` : ''}p.name collate "C" ${order}`
}

const prepared = new Map<string, CallerStatement>()
function once(name: string, make: () => string): CallerStatement {
  const known = prepared.get(name) ?? statement(make(), true)
  prepared.set(name, known)
  return known
}

export async function listFolder(
  store: Store,
  context: RequestContext,
  bucket: string,
  options: FolderListOptions,
): Promise<JsonText> {
  const { column, order } = sortOf(options.sortBy, columns)
  const given = options.prefix ?? ''
  const prefix = given === '' || given.endsWith('/') ? given : `${given}/`
  const limit = Math.min(options.limit ?? defaultFolderEntries, maxFolderEntries)
  const asked = once(`folder ${column} ${order}`, () => folderSql(column, order))
  checkTexts(prefix, options.search ?? '')
  const values = [
    bucket,
    prefix,
    endOf(prefix),
    options.search ?? '',
    String(limit),
    String(options.offset ?? 0),
  ]
  const [row] = await store.ask(context, 'object', asked, values)
  return new JsonText(Buffer.from(row![0]!))
}

interface Cursor {
  column: Exclude<Column, 'last_accessed_at'>
  order: Order
  at: string | null
  name: string
  prefix: string
  groups: boolean
}

export interface Page {
  hasNext: boolean
  folders: unknown[]
  objects: unknown[]
  nextCursor?: string
}

export async function listPage(
  store: Store,
  context: RequestContext,
  bucket: string,
  options: PageListOptions,
): Promise<Page> {
  const cursor = options.cursor ? cursorFrom(options.cursor) : undefined
  const { column, order } = cursor ?? sortOf(options.sortBy, pageColumns)
  // Clients send only the cursor for the following pages, so it contains the other options.
  const prefix = cursor?.prefix ?? options.prefix ?? ''
  const limit = Math.min(options.limit ?? maxPage, maxPage)
  const groups = cursor?.groups ?? options.with_delimiter === true
  checkTexts(prefix)
  const asked = once(`page ${column} ${order} ${groups}`, () => pageSql(column, order, groups))
  const values = [bucket, prefix, endOf(prefix), String(limit + 1), cursor?.name ?? null]
  if (column !== 'name') values.push(cursor?.at ?? null)
  const rows = await store.ask(context, 'object', asked, values)
  const shown = rows.slice(0, limit)
  const entries = (isFolder: string) =>
    shown.filter(row => row[1] === isFolder).map(row => JSON.parse(row[3]!) as unknown)
  const page: Page = { hasNext: rows.length > limit, folders: entries('t'), objects: entries('f') }
  const last = shown.at(-1)
  if (page.hasNext && last)
    page.nextCursor = Buffer.from(
      JSON.stringify({ column, order, at: last[2], name: last[0], prefix, groups }),
    ).toString('base64')
  return page
}

function sortOf<C extends Column>(
  options: { column?: string; order?: string } | null | undefined,
  allowed: readonly C[],
): { column: C; order: Order } {
  const column = options?.column ?? 'name'
  const order = (options?.order ?? 'asc').toLowerCase()
  if (!allowed.includes(column as C))
    throw storageRefusal('InvalidRequest', `sortBy.column must be one of ${allowed.join(', ')}`)
  if (order !== 'asc' && order !== 'desc')
    throw storageRefusal('InvalidRequest', 'sortBy.order must be asc or desc')
  return { column: column as C, order }
}

function cursorFrom(text: string): Cursor {
  try {
    if (text.length > maxCursor) throw invalidCursor()
    const parsed = JSON.parse(Buffer.from(text, 'base64').toString()) as Record<keyof Cursor, unknown>
    const { at, name, prefix, groups } = parsed
    const sort = sortOf({ column: String(parsed.column), order: String(parsed.order) }, pageColumns)
    if (isText(name) && isText(prefix) && isTime(at))
      return { ...sort, at, name, prefix, groups: groups === true }
  } catch {
    // Rejected below with the same message as any other invalid cursor.
  }
  throw invalidCursor()
}

const invalidCursor = () => storageRefusal('InvalidRequest', 'The cursor is not one that a list has answered')

const isText = (text: unknown): text is string => typeof text === 'string' && !text.includes('\0')
const isTime = (at: unknown): at is string | null =>
  at === null || (typeof at === 'string' && /^\d{4}-[\d :.+-]{1,40}$/.test(at))

/** The maximum length of an object name. */
const maxText = 1024
/** A cursor contains a name and a prefix. */
const maxCursor = 16 * 1024

function checkTexts(...texts: string[]): void {
  if (texts.some(text => text.length > maxText))
    throw storageRefusal('InvalidRequest', `prefix and search have at most ${maxText} characters`)
  if (texts.some(text => text.includes('\0')))
    throw storageRefusal('InvalidRequest', 'A name cannot hold a NUL character')
}

/** The smallest text greater than every text with this prefix, or null. The range condition can use an index. */
function endOf(prefix: string): string | null {
  const characters = [...prefix]
  for (let last = characters.pop(); last !== undefined; last = characters.pop()) {
    const code = last.codePointAt(0)!
    if (code < 0x10ffff)
      return characters.join('') + String.fromCodePoint(code === 0xd7ff ? 0xe000 : code + 1)
  }
  return null
}
