// Nodes with different connection limits on the same projects, and statements as callers and as the owner.
import { after, before } from 'node:test'
import type { Role } from '@plinth/contract/route.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Value } from '#src/kernel/postgres/wire/encoder.ts'
import { type Caller, type RequestFacts, statement } from '#src/tenancy/databases.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

export interface Project {
  id: string
  ref: string
}
interface AskOptions {
  values?: Value[]
  mayPipeline?: boolean
  facts?: Partial<RequestFacts>
  signal?: AbortSignal
  sub?: string
  on?: TestPlatform
}
type Row = (string | null)[]

const nodeSettings = {
  twoConnections: { PLATFORM_POOL_SIZE: '2', PLATFORM_STATEMENT_TIMEOUT_ANON_MS: '400' },
  oneConnection: { PLATFORM_POOL_SIZE: '1', PLATFORM_STATEMENT_TIMEOUT_ANON_MS: '1000' },
  /** At most four connections for all projects together. */
  capped: { PLATFORM_POOL_SIZE: '2', PLATFORM_MAX_DB_CONNECTIONS: '4' },
}
type LimitedNode = keyof typeof nodeSettings

export const user1 = '11111111-1111-4111-8111-111111111111'
export const user2 = '22222222-2222-4222-8222-222222222222'

/** Starts a node with default settings and those named, before the tests of a file. */
export function databaseNodes(...limited: LimitedNode[]) {
  const nodes = {} as Record<'standard' | LimitedNode, TestPlatform> & { project: Project }

  before(async () => {
    nodes.standard = await startPlatform()
    for (const name of limited)
      nodes[name] = await startPlatform({ beside: nodes.standard, settings: nodeSettings[name] })
    nodes.project = await newProject()
  })
  after(async () => {
    for (const name of limited) await nodes[name]?.stop()
    await nodes.standard?.stop()
  })

  async function newProject(script = 'select'): Promise<Project> {
    const { id } = await nodes.standard.createProject()
    const project = { id, ref: await nodes.standard.refOf(id) }
    await asOwner(project, script)
    return project
  }

  const asOwner = ({ ref }: Project, text: string) =>
    nodes.standard.app.databases.asOwner({ ref }, session => session.script(text))

  async function ask(
    { id }: Project,
    role: Role,
    text: string,
    { values = [], mayPipeline = false, facts: more, signal, sub, on = nodes.standard }: AskOptions = {},
  ): Promise<Row[]> {
    const tenant = (await on.app.directory.find(id))!
    const claims = JSON.stringify({ role, ...(sub && { sub }) })
    const caller: Caller = { tenant, role, claims, userId: sub ?? '', sessionId: '' }
    const facts = { method: 'GET', path: '/things', headers: '{"a":"b"}', ...(signal && { signal }), ...more }
    const { rows } = await on.app.databases.asCaller(caller, facts, statement(text, mayPipeline), values)
    return rows.map(row => row.map(cell => cell?.toString() ?? null))
  }

  return {
    nodes,
    newProject,
    asOwner,
    ask,
    /** The first cell of the first row. */
    askOne: async (...args: Parameters<typeof ask>) => (await ask(...args))[0]?.[0],
    /** Sessions in the project's database, without those of the owner. */
    backends: ({ ref }: Project) =>
      nodes.standard.asSuperuser('postgres', session =>
        session.rows<{ pid: number; state: string; query: string }>(
          sql`select pid, state, query from pg_stat_activity
              where datname = ${ref} and usename <> ${`${ref}_owner`}`,
        ),
      ),
  }
}

/** `done`, or the code of the error. */
export const outcomeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: { code?: string }) => error.code ?? String(error),
  )

export const countByCode = (codes: readonly string[]): Record<string, number> =>
  Object.fromEntries(
    Object.entries(Object.groupBy(codes, code => code)).map(([code, all]) => [code, all!.length]),
  )
