// A project with tables, its rows API on the native and the alias path, and each kind of caller. The schema
// is created with exec_sql.
import assert from 'node:assert/strict'
import { type CreatedProject, createProject, sleep, unlimited, userJwt } from './people.ts'
import type { Target } from './target.ts'
import { assertRequestId, type Reply } from './wire.ts'

export type Caller = 'anon' | 'service_role' | { sub: string; [claim: string]: unknown }
export interface Ask {
  /** Default: anon. An object is the claims of a signed-in user. */
  as?: Caller
  prefer?: string
  body?: unknown
  headers?: Record<string, string>
  shape?: 'native' | 'alias'
}

export interface RowsApi {
  project: CreatedProject
  /** The path after the service, unencoded: every part is percent-encoded here, and %xx in it is kept. */
  ask(method: string, path: string, options?: Ask): Promise<Reply>
  get(path: string, options?: Ask): Promise<Reply>
  head(path: string, options?: Ask): Promise<Reply>
  post(path: string, body?: unknown, options?: Ask): Promise<Reply>
  put(path: string, body?: unknown, options?: Ask): Promise<Reply>
  patch(path: string, body?: unknown, options?: Ask): Promise<Reply>
  delete(path: string, options?: Ask): Promise<Reply>
  /** The rows of a GET, which must succeed. */
  read(path: string, options?: Ask): Promise<any>
  /** Runs a script as the project's owner and returns the rows of its last statement. */
  sql(script: string): Promise<any[]>
  /** Runs a script that changes the schema, then waits until the API uses the new schema. */
  ddl(script: string): Promise<void>
}

/** Policies that allow everything on all existing tables, for tests that are not about policies. */
const openTables = `
  do $open$ declare t regclass; begin
    for t in select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
              where c.relkind in ('r', 'p') and n.nspowner = current_user::regrole loop
      execute format('create policy everybody on %s using (true) with check (true)', t);
    end loop;
  end $open$;`

export async function rowsProject(
  target: Target,
  schema: string,
  { isOpen = true, fields = {} as Record<string, unknown> } = {},
): Promise<RowsApi> {
  const project = await createProject(target, { quotas: unlimited, ...fields })
  const api = rowsOf(target, project)
  await api.ddl(isOpen ? `${schema};${openTables}` : schema)
  return api
}

function rowsOf(target: Target, project: CreatedProject): RowsApi {
  const ask = (method: string, path: string, { as = 'anon', prefer, body, headers, shape }: Ask = {}) =>
    target.call(method, `${rootOf(project, shape)}/${encodePath(path)}`, {
      apikey: as === 'service_role' ? project.service_role_key : project.anon_key,
      token: typeof as === 'object' ? userJwt(project, as) : undefined,
      body,
      headers: { ...(prefer !== undefined && { prefer }), ...headers },
    })
  const withBody = (method: string) => (path: string, body?: unknown, options?: Ask) =>
    ask(method, path, { ...options, body })
  const withoutBody = (method: string) => (path: string, options?: Ask) => ask(method, path, options)

  async function sql(script: string): Promise<any[]> {
    const reply = await ask('POST', 'rpc/exec_sql', { as: 'service_role', body: { sql: script } })
    assert.equal(reply.status, 200, reply.text)
    return reply.body
  }

  let changes = 0
  async function ddl(script: string): Promise<void> {
    const marker = `settled_${++changes}`
    await sql(`${script}; create table public.${marker} (a int)`)
    for (const deadline = Date.now() + 120_000; Date.now() < deadline; await sleep(20))
      if ((await ask('GET', `${marker}?limit=0`)).status === 200) return
    assert.fail('the API does not know the new table after 120 seconds')
  }

  return {
    project,
    ask,
    get: withoutBody('GET'),
    head: withoutBody('HEAD'),
    delete: withoutBody('DELETE'),
    post: withBody('POST'),
    put: withBody('PUT'),
    patch: withBody('PATCH'),
    sql,
    ddl,
    async read(path, options) {
      const reply = await ask('GET', path, options)
      assert.equal(reply.status, 200, `${path}: ${reply.status} ${reply.text}`)
      return reply.body
    },
  }
}

export const rootOf = ({ id }: Pick<CreatedProject, 'id'>, shape: Ask['shape'] = 'native') =>
  shape === 'alias' ? `/v1/${id}/rest/v1` : `/v1/rest/${id}`

const encode = (part: string) => encodeURIComponent(decodeURIComponent(part))

function encodePath(written: string): string {
  const [path = '', query] = written.split(/\?(.*)/s)
  const segments = path.split('/').map(encode).join('/')
  if (query === undefined) return segments
  const pairs = query.split('&').map(pair => {
    const [key = '', value] = pair.split(/=(.*)/s)
    return value === undefined ? encode(key) : `${encode(key)}=${encode(value)}`
  })
  return `${segments}?${pairs.join('&')}`
}

/** The error fields of 1 §7 and of REST contract §6 row 1. A HEAD has no body to check. */
export function assertRefused(
  reply: Reply,
  status: number,
  code: string,
  { message, hint, details }: { message?: RegExp; hint?: RegExp; details?: RegExp } = {},
): void {
  const { candidates: _, ...body } = reply.body ?? {}
  assert.equal(reply.status, status, `${reply.status} ${reply.text}`)
  assert.equal(body.code, code, reply.text)
  assertErrorBody(reply)
  if (message) assert.match(body.message, message)
  if (hint) assert.match(body.hint, hint)
  if (details) assert.match(body.details, details)
}

/** For errors whose status the specification defines, but not their code. */
export function assertStatus(reply: Reply, status: number): void {
  assert.equal(reply.status, status, `${reply.status} ${reply.text}`)
  if (status >= 400) assertErrorBody(reply)
}

export function assertErrorBody(reply: Reply): void {
  // Only an ambiguous embed has one more field: the relationships to choose from.
  const { candidates: _, ...body } = reply.body ?? {}
  assert.deepEqual(
    Object.keys(body).sort(),
    ['code', 'details', 'error', 'hint', 'message', 'statusCode'],
    `${reply.status} ${reply.text}`,
  )
  for (const field of ['code', 'message', 'error', 'details', 'hint'])
    assert.equal(typeof body[field], 'string', `${field}: ${reply.text}`)
  assert.notEqual(body.message, '')
  assert.notEqual(body.code, '')
  assert.equal(body.error, body.message)
  assert.equal(body.statusCode, reply.status)
  assertRequestId(reply)
}

export const totalOf = (reply: Reply) => reply.headers.get('content-range')?.split('/')[1]
export const rangeOf = (reply: Reply) => reply.headers.get('content-range')
export const appliedOf = (reply: Reply) =>
  (reply.headers.get('preference-applied') ?? '')
    .split(',')
    .map(each => each.trim())
    .filter(each => each !== '')
