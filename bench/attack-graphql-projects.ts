// Projects for the GraphQL cases of attacks.ts. Each is created when a case first needs it.
import { type HttpRequest, send } from './attack-send.ts'
import { projectsAt } from './stage.ts'

export interface GraphqlProject {
  /** Runs SQL as the owner. */
  owner(...statements: string[]): Promise<void>
  request(body: Buffer, headers?: Record<string, string>): HttpRequest
  get(search: string): HttpRequest
}

export type GraphqlSchema = keyof typeof schemas

const repeated = (times: number, statement: (n: number) => string): string[] =>
  Array.from({ length: times }, (_, n) => statement(n))

/** The longest comment that is read, with the start of a directive as often as possible. */
const commentOfStarts = '@graphql('.repeat(2222)

/** Each refers to the one before it and to the first. */
const tables = (count: number): string[] =>
  repeated(
    count,
    n =>
      `create table t${n} (id int primary key, name text, at timestamptz, previous_id int references t${Math.max(0, n - 1)}, first_id int references t0)`,
  )

const schemas = {
  small: () => [
    'create table items (id int primary key, name text)',
    'create table parts (id int primary key, item_id int references items, name text)',
    'create index on parts (item_id)',
    'create policy read_all on items for select using (true)',
    'create policy read_all on parts for select using (true)',
    `insert into items select n, 'item ' || n from generate_series(1, 30) n`,
    `insert into parts select n, 1 + n % 30, 'part ' || n from generate_series(1, 900) n`,
  ],
  'of a wide table': () => [
    `create table wide (id int primary key, parent_id int references wide, ${repeated(1500, at => `c${at} text`).join()})`,
    'insert into wide values (1, 1)',
  ],
  'full of columns': () =>
    repeated(
      20,
      n =>
        `create table t${n} (id int primary key, ${repeated(1000, at => `c${at} text`).join()},
         foreign key (id) references t${Math.max(0, n - 1)})`,
    ),
  'full of functions': () => [
    ...repeated(
      5000,
      n =>
        `create function f${n}(${repeated(10, at => `a${at} int default 1`).join()}) returns int language sql stable as $$ select 1 $$`,
    ),
  ],
  'full of labels': () => [
    `create type label as enum (${repeated(50_000, n => `'l${n}'`).join()})`,
    'create table items (id int primary key, label label)',
  ],
  'full of comments': () => [
    `create table items (id int primary key, ${repeated(50, at => `c${at} text`).join()})`,
    ...repeated(50, at => `comment on column items.c${at} is '${commentOfStarts}'`),
  ],
  'of 20 tables': () => tables(20),
  'of 2,000 tables': () => tables(2000),
} as const satisfies Record<string, () => string[]>

const statementsAtOnce = 200

/** Projects by the name of their schema. */
export function graphqlProjects(url: string, adminToken: string) {
  const made = new Map<string, Promise<GraphqlProject>>()

  async function create(schema: GraphqlSchema): Promise<GraphqlProject> {
    const project = await projectsAt(url, adminToken).create({ body: { name: schema } })
    const apikey = project.service_role_key
    const path = `/v1/graphql/${project.id}`
    const json = { 'content-type': 'application/json' }
    const owner = async (...statements: string[]) => {
      const status = await send(url, {
        method: 'POST',
        path: `/v1/rest/${project.id}/rpc/exec_sql`,
        headers: { apikey, ...json },
        body: Buffer.from(JSON.stringify({ sql: statements.join(';') })),
      })
      if (status !== 200) throw new Error(`exec_sql for the schema "${schema}" answered ${status}`)
    }
    const statements = schemas[schema]()
    for (let at = 0; at < statements.length; at += statementsAtOnce)
      await owner(...statements.slice(at, at + statementsAtOnce))
    return {
      owner,
      request: (body, headers = {}) => ({
        method: 'POST',
        path,
        headers: { apikey, ...json, ...headers },
        body,
      }),
      get: search => ({ method: 'GET', path: `${path}?${search}`, headers: { apikey } }),
    }
  }

  return (schema: GraphqlSchema): Promise<GraphqlProject> => {
    const found = made.get(schema) ?? create(schema)
    made.set(schema, found)
    return found
  }
}
