// A project for hostile and unusual use of the row API, with a table of five rows and answers of at most three.
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'

interface Extras {
  body?: unknown
  headers?: Record<string, string>
  as?: 'anon' | 'service_role'
}

export const prefer = (text: string) => ({ prefer: text })

/** Starts the platform before the tests of a file. `platform` and `project` are set from then on. */
export function rowsProject() {
  const platform = {} as TestPlatform
  const project = {} as CreatedProject

  before(async () => {
    const settings = {
      PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
      PLATFORM_RATE_LIMIT_ANON: '0',
      PLATFORM_REST_MAX_ROWS: '3',
      PLATFORM_STATEMENT_TIMEOUT_MS: '60000',
    }
    Object.assign(platform, await startPlatform({ settings }))
    Object.assign(project, await platform.createProject())
    await owner(`
      create table things (id bigint primary key, name text);
      alter table things disable row level security;
      insert into things select i, 'x' || i from generate_series(1, 5) i`)
  })
  after(() => platform.stop?.())

  const rows = (method: string, path: string, { body, headers = {}, as = 'service_role' }: Extras = {}) =>
    platform.call(method, `/v1/rest/${project.id}/${path}`, {
      apikey: as === 'anon' ? project.anon_key : project.service_role_key,
      body,
      headers,
    })

  async function owner(text: string): Promise<Reply> {
    const reply = await rows('POST', 'rpc/exec_sql', { body: { sql: text } })
    assert.equal(reply.status, 200, JSON.stringify(reply.body))
    return reply
  }

  return { platform, project, rows, owner }
}
