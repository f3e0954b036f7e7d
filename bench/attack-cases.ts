// The cases of attacks.ts: for every declared route unusual bodies, queries and headers of the largest size it accepts,
// and special input for some routes. Each case has a harmless control of the same size.
import { randomUUID } from 'node:crypto'
import { addresses } from '@plinth/contract/openapi.ts'
import type { Route } from '@plinth/contract/route.ts'
import { routeTables } from '@plinth/contract/routes.ts'
import { backupCases } from './attack-backups.ts'
import { filled, jsonBodies, mebibyte, numbered, plainText } from './attack-bodies.ts'
import { branchCases } from './attack-branches.ts'
import { functionCases } from './attack-functions.ts'
import { graphqlCases } from './attack-graphql.ts'
import { type HttpRequest, send, sendFrames, sendRaw, sendRawFrames } from './attack-send.ts'
import { webhookCases } from './attack-webhooks.ts'

export interface Attacked {
  url: string
  projectId: string
  anonKey: string
  serviceKey: string
  adminToken: string
}

export interface Case {
  name: string
  /** Not measured. */
  prepare?(): Promise<void>
  /** Sends the request and returns the status. */
  control(): Promise<number>
  attack(): Promise<number>
}

/** Together with the request line and the other headers, just under the limit of the server. */
const headRoom = 30 * 1024
/** Routes that delete the project or rotate its keys are called for a project that does not exist. */
const endsProject = /^\/projects\/\{id\}(\/(suspend|rotate\/.*|db\/reset))?$/

export function genericCases(attacked: Attacked): Case[] {
  return Object.entries(routeTables).flatMap(([service, routes]) =>
    Object.entries(routes as Record<string, Route>).flatMap(([name, route]) =>
      casesOf(attacked, `${service}.${name}`, route),
    ),
  )
}

function casesOf(attacked: Attacked, name: string, route: Route): Case[] {
  const base: HttpRequest = {
    method: route.method,
    path: pathOf(attacked, route),
    headers: credentials(attacked, route),
  }
  const sender = (more: Partial<HttpRequest>) => () =>
    send(attacked.url, { ...base, ...more, headers: { ...base.headers, ...more.headers } })
  const cases: Case[] = [
    {
      name: `${name}: query of many parameters`,
      control: sender({ path: `${base.path}?a=${'x'.repeat(headRoom)}` }),
      attack: sender({ path: `${base.path}?a=1${'&a=1'.repeat(headRoom / 4)}` }),
    },
    {
      name: `${name}: headers of many parts`,
      control: sender({ headers: { 'x-plain': 'x'.repeat(headRoom) } }),
      attack: sender({ headers: manyParts }),
    },
  ]
  if (route.method === 'GET' || route.method === 'HEAD') return cases
  const size = route.bodyLimit ?? (route.plane === 'data' ? 10 * mebibyte : mebibyte)
  const json = { 'content-type': 'application/json' }
  const control = sender({ headers: json, body: plainText(size) })
  for (const [kind, make] of Object.entries(jsonBodies))
    cases.push({
      name: `${name}: JSON of ${kind}`,
      control,
      attack: () => sender({ headers: json, body: make(size) })(),
    })
  return cases
}

const part = headRoom / 6
const manyParts = {
  prefer: 'a=b,'.repeat(part / 4),
  accept: 'a/b,'.repeat(part / 4),
  cookie: 'a=b;'.repeat(part / 4),
  range: `${'0-1,'.repeat(part / 4)}0-1`,
  'x-forwarded-for': '1.1.1.1,'.repeat(part / 8),
  'accept-language': 'a;q=0,'.repeat(part / 6),
}

const credentials = ({ serviceKey, adminToken }: Attacked, { plane }: Route): Record<string, string> =>
  plane === 'data' ? { apikey: serviceKey } : { authorization: `Bearer ${adminToken}` }

/** Names of objects that exist in the attacked project. Other parameters get a name that does not exist. */
const known: Record<string, string> = {
  table: 'items',
  function: 'echo',
  name: 'mine',
  bucket: 'mine',
  key: 'mine',
  path: 'mine/file.txt',
  topic: 'mine',
}

function pathOf({ projectId }: Attacked, route: Route): string {
  const id = endsProject.test(route.path) && route.method !== 'GET' ? randomUUID() : projectId
  return addresses(route)[0]!.replace(/\{(\w+)\}/g, (_, parameter: string) =>
    parameter === 'project' || parameter === 'id'
      ? id
      : (known[parameter] ?? (parameter.endsWith('_id') ? randomUUID() : 'absent')),
  )
}

export function ownCases(attacked: Attacked): Case[] {
  const { url, projectId, anonKey, serviceKey, adminToken } = attacked
  const rest = `/v1/rest/${projectId}`
  const anon = { apikey: anonKey }
  const service = { apikey: serviceKey }
  const size = 10 * mebibyte - 1024

  const pair = (name: string, control: HttpRequest, attack: () => HttpRequest): Case => ({
    name,
    control: () => send(url, control),
    attack: () => send(url, attack()),
  })
  const body = (type: string, bytes: Buffer, path = '/items', headers = anon): HttpRequest => ({
    method: 'POST',
    path: rest + path,
    headers: { ...headers, 'content-type': type },
    body: bytes,
  })
  const csv = (bytes: () => Buffer) => () => body('text/csv', bytes())
  const csvControl = body('text/csv', filled(size, 'name\n', 'x', '\n'))
  const form = (bytes: () => Buffer) => () => body('application/x-www-form-urlencoded', bytes())
  const formControl = body('application/x-www-form-urlencoded', filled(size, 'name=', 'x', ''))
  const query = (name: string, text: string): Case => read(`rows: ${name}`, `/items?${text}`)
  const read = (name: string, path: string, headers: Record<string, string> = {}): Case =>
    pair(
      name,
      { method: 'GET', path: `${rest}/items?name=eq.${'x'.repeat(headRoom)}`, headers: anon },
      () => ({ method: 'GET', path: rest + path, headers: { ...anon, ...headers } }),
    )
  const fill = (piece: string) => piece.repeat(Math.floor(headRoom / piece.length))
  const sql = (name: string, text: () => string, harmless = `select '${'x'.repeat(1000)}'`): Case =>
    pair(`exec_sql: ${name}`, sqlOf(harmless), () => sqlOf(text()))
  const sqlOf = (text: string): HttpRequest =>
    body('application/json', Buffer.from(JSON.stringify({ sql: text })), '/rpc/exec_sql', service)
  const longSql = `select 1 -- ${'x'.repeat(size - 200)}`
  const pushOf = (text: string): HttpRequest => ({
    method: 'POST',
    path: `/api/v1/projects/${projectId}/db/push`,
    headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
    body: Buffer.from(
      JSON.stringify({ migrations: [{ version: String(Date.now()), name: 'attack', sql: text }] }),
    ),
  })
  const queue = (bytes: Buffer): HttpRequest => ({
    method: 'POST',
    path: `/v1/queue/${projectId}/queues/mine/send_batch`,
    headers: { ...service, 'content-type': 'application/json' },
    body: bytes,
  })
  const multipart = (bytes: Buffer): HttpRequest => ({
    method: 'POST',
    path: `/v1/storage/${projectId}/object/mine/many.txt`,
    headers: { ...service, 'content-type': 'multipart/form-data; boundary=b', 'x-upsert': 'true' },
    body: bytes,
  })
  const upload = (piece: string) =>
    filled(
      size,
      '--b\r\ncontent-disposition: form-data; name=""; filename="a"\r\n\r\n',
      piece,
      '\r\n--b--\r\n',
    )
  const socket = `/v1/realtime/${projectId}/socket/websocket?apikey=${anonKey}&vsn=2.0.0`
  const frames = (name: string, make: () => (string | Buffer)[]): Case => ({
    name: `realtime: ${name}`,
    control: () => sendFrames(url, socket, [JSON.stringify([null, '1', 'phoenix', 'x'.repeat(100_000), {}])]),
    attack: () => sendFrames(url, socket, make()),
  })
  /** Requests as bytes. The last one closes the connection. */
  const rawRequests = (name: string, make: () => Buffer): Case => ({
    name: `http: ${name}`,
    control: () => send(url, { method: 'GET', path: `${rest}/items?limit=1`, headers: anon }),
    attack: () => sendRaw(url, make()),
  })
  const requestHead = (line: string, ...headers: string[]) =>
    `${[`${line} HTTP/1.1`, 'host: x', ...headers].join('\r\n')}\r\n\r\n`
  const lastRequest = requestHead('GET /', 'connection: close')

  /** A first frame, then 4 MB of another frame, in hex. */
  const rawFrames = (name: string, frame: string, first = ''): Case => ({
    name: `realtime: ${name}`,
    control: () => sendFrames(url, socket, [JSON.stringify([null, '1', 'phoenix', 'x'.repeat(100_000), {}])]),
    attack: () =>
      sendRawFrames(
        url,
        socket,
        Buffer.from(first + frame.repeat((4 * mebibyte) / (frame.length / 2)), 'hex'),
      ),
  })

  return [
    pair(
      'rows: CSV of empty lines',
      csvControl,
      csv(() => filled(size, 'name\n', '\n', '')),
    ),
    pair(
      'rows: CSV of commas',
      csvControl,
      csv(() => filled(size, 'name\n', ',', '')),
    ),
    pair(
      'rows: CSV of names',
      csvControl,
      csv(() => filled(size, 'name', ',a', '')),
    ),
    pair(
      'rows: CSV of quotes',
      csvControl,
      csv(() => filled(size, 'name\n"', '""', '"')),
    ),
    pair(
      'rows: CSV of short lines',
      csvControl,
      csv(() => filled(size, 'name\n', 'a\n', '')),
    ),
    pair(
      'rows: form of many fields',
      formControl,
      form(() => filled(size, 'name=a', '&a=', '')),
    ),
    pair(
      'rows: form of different fields',
      formControl,
      form(() => numbered(size, 'name=a', n => `&a${n}`, '')),
    ),
    pair(
      'rows: form of escapes',
      formControl,
      form(() => filled(size, 'name=', '%41', '')),
    ),
    pair('rows: form of a function', formControl, () =>
      body('application/x-www-form-urlencoded', filled(size, 'value=a', '&a=', ''), '/rpc/echo'),
    ),
    pair('rows: rows of a function', body('application/json', plainText(size), '/rpc/echo'), () =>
      body('application/json', filled(size, '{"value":[0', ',0', ']}'), '/rpc/echo'),
    ),
    pair(
      'rows: rows that can be written',
      body('application/json', filled(size, '{"name":"', 'x', '"}'), '/items', service),
      () =>
        body(
          'application/json',
          filled(4 * mebibyte, '[{"name":"a"}', ',{"name":"a"}', ']'),
          '/items',
          service,
        ),
    ),
    pair(
      'rows: columns of a body',
      body('application/json', Buffer.from('{"name":"a"}'), `/items?columns=${'x'.repeat(headRoom)}`),
      () => body('application/json', Buffer.from('{"name":"a"}'), `/items?columns=${fill('name,')}name`),
    ),
    pair(
      'calls: unknown arguments of many overloads',
      body('application/json', plainText(1000), '/rpc/echo'),
      () =>
        body(
          'application/json',
          numbered(20_000, '{"x":1', n => `,"u${n}":1`, '}'),
          '/rpc/many',
        ),
    ),
    pair(
      'calls: fields of a variadic parameter',
      body('application/x-www-form-urlencoded', filled(6000, 'value=', 'x', ''), '/rpc/echo'),
      () => body('application/x-www-form-urlencoded', filled(6000, 'v=1', '&v=1', ''), '/rpc/total'),
    ),
    read(
      'calls: parameters of many overloads',
      `/rpc/many?${numbered(headRoom, 'a1=eq.1', n => `&a${n % 90}=eq.1`, '')}`,
    ),
    read('calls: values of a variadic parameter', `/rpc/total?${fill('v=1&')}v=1`),
    read('calls: a media type that the project makes', '/rpc/page', { accept: 'text/html' }),
    read('rows: media types in Accept', '/items?limit=1', { accept: `${fill('a/b;c=d,')}text/html` }),
    read('rows: time zone in Prefer', '/items?limit=1', { prefer: `timezone=${fill('A')}` }),
    pair(
      'rows: OPTIONS of many overloads',
      { method: 'OPTIONS', path: `${rest}/items`, headers: anon },
      () => ({ method: 'OPTIONS', path: `${rest}/rpc/many`, headers: anon }),
    ),
    query('select of many columns', `select=${fill('name,')}name`),
    query('select of unknown columns', `select=${numbered(headRoom, 'a', n => `,a${n}`, '')}`),
    query('select of casts', `select=${fill('name::text,')}name`),
    query('select of embeds', `select=${fill('items(name),')}name`),
    query('select of open parentheses', `select=${fill('items(')}`),
    query('conditions', fill('name=eq.a&')),
    query('alternatives', `or=(${fill('name.eq.a,')}name.eq.a)`),
    query('nested alternatives', `or=(${'and('.repeat(3000)}name.eq.a${')'.repeat(3000)})`),
    query('a list of values', `name=in.(${fill('a,')}a)`),
    query('a list of quotes', `name=in.(${fill('%22')})`),
    query('order of many columns', `order=${fill('name.asc,')}name`),
    query('JSON path', `select=name${fill('->a')}`),
    query('escapes', `name=eq.${fill('%41')}`),
    query('prototype names', fill('__proto__=eq.a&constructor=eq.a&')),
    sql('40,000 statements', () => 'select 1;'.repeat(40_000), longSql.slice(0, 360_000)),
    sql('a million empty statements', () => ';'.repeat(1_000_000), longSql.slice(0, 1_000_000)),
    sql(
      'dollar quotes',
      () => numbered(2_000_000, '', n => `$a${n}$ `, '').toString(),
      longSql.slice(0, 2_000_000),
    ),
    sql('escaped quotes', () => `select E'${"\\'".repeat(1_000_000)}'`, longSql.slice(0, 2_000_000)),
    sql('line ends', () => `${'\n'.repeat(9_000_000)}select 1`, longSql.slice(0, 9_000_000)),
    sql('two million rows', () => 'select n from generate_series(1, 2000000) n'),
    sql('two million rows of text', () => "select 'a' as a, 'b' as b from generate_series(1, 1000000) n"),
    sql('one array of a million', () => 'select array(select generate_series(1, 1000000)) as a'),
    sql('one text of 50 MB', () => `select repeat(chr(34), 50000000) as a`),
    sql(
      'a thousand columns',
      () =>
        `select ${Array.from({ length: 1000 }, (_, n) => `${n} as c${n}`).join()} from generate_series(1, 1000)`,
    ),
    sql('notices', () => `do $$ begin for n in 1..200000 loop raise notice 'n'; end loop; end $$`),
    sql('an error in the last of many lines', () => `${'select 1;\n'.repeat(40_000)}select x`),
    pair('migration of 40,000 statements', pushOf(longSql.slice(0, 360_000)), () =>
      pushOf('select 1;'.repeat(40_000)),
    ),
    pair('migration of a million line ends', pushOf(longSql.slice(0, 9_000_000)), () =>
      pushOf(`${'\n'.repeat(9_000_000)}select 1`),
    ),
    pair('queue: a batch of 10,000', queue(filled(size, '{"messages":["', 'x', '"]}')), () =>
      queue(filled(120_000, '{"messages":[0', ',0', ']}').subarray(0)),
    ),
    pair('queue: a batch of objects', queue(filled(size, '{"messages":["', 'x', '"]}')), () =>
      queue(filled(size, '{"messages":[[0', ',0', ']]}')),
    ),
    pair('queue: headers', queue(filled(size, '{"messages":["', 'x', '"]}')), () =>
      queue(filled(size, '{"messages":[0],"headers":[{}', ',{}', ']}')),
    ),
    pair('storage: multipart of boundaries', multipart(upload('x')), () => multipart(upload('\r\n--c'))),
    pair('storage: multipart of parts', multipart(upload('x')), () =>
      multipart(upload('\r\n--b\r\ncontent-disposition: form-data; name="a"\r\n\r\nb')),
    ),
    pair('storage: multipart of headers', multipart(upload('x')), () =>
      multipart(filled(size, '--b\r\n', 'a: b\r\n', '\r\n\r\n--b--\r\n')),
    ),
    frames('a frame of values', () => [`[null,"1","t","e",[${'0,'.repeat(60_000)}0]]`]),
    frames('an open frame', () => ['['.repeat(100_000)]),
    frames('many small frames', () => Array.from({ length: 5000 }, () => '[null,"1","t","e",{}]')),
    frames('a join of many bindings', () => [
      JSON.stringify([
        '1',
        '1',
        'realtime:a',
        'phx_join',
        {
          config: {
            postgres_changes: Array.from({ length: 1000 }, () => ({
              event: '*',
              schema: 'public',
              table: 'items',
            })),
          },
        },
      ]),
    ]),
    rawFrames('pings', '898000000000'),
    rawFrames('empty messages', '818000000000'),
    rawFrames('messages behind a malformed one', '818000000000', '81810000000061'),
    rawFrames('fragments', '008000000000', '018000000000'),
    rawRequests('requests without an answer between them', () =>
      Buffer.from(requestHead('GET /v1/nowhere').repeat(10_000) + lastRequest),
    ),
    rawRequests('reads without an answer between them', () =>
      Buffer.from(requestHead(`GET ${rest}/items?limit=1`, `apikey: ${anonKey}`).repeat(2000) + lastRequest),
    ),
    rawRequests('empty lines before a request', () => Buffer.from('\r\n'.repeat(2 * mebibyte) + lastRequest)),
    rawRequests('chunks of one byte', () =>
      Buffer.from(
        `${requestHead(
          `POST ${rest}/items`,
          `apikey: ${anonKey}`,
          'content-type: application/json',
          'transfer-encoding: chunked',
          'connection: close',
        )}${'1\r\n \r\n'.repeat(mebibyte)}0\r\n\r\n`,
      ),
    ),
    ...graphqlCases(attacked),
    ...functionCases(attacked),
    ...webhookCases(attacked),
    ...backupCases(attacked),
    ...branchCases(attacked),
    // The last case, because Postgres cannot interrupt it, and it occupies connections of the project until it ends.
    pair('rows: a function that is stuck', body('application/json', plainText(1000), '/rpc/echo'), () =>
      body('application/json', Buffer.from('{}'), '/rpc/stuck'),
    ),
  ]
}
