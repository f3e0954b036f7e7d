// A project with tables of two users, and calls of its row-level security routes.
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'

export const ann = '00000000-0000-4000-8000-00000000000a'
export const bob = '00000000-0000-4000-8000-00000000000b'

export const statusAndCode = ({ status, body }: Reply) => [status, body?.error?.code]
export const allowedIds = (reply: any) =>
  reply.rows.filter((each: any) => each.allowed).map((each: any) => each.row.id)

export function rlsProject() {
  const stage = {} as { platform: TestPlatform; id: string }
  before(async () => {
    stage.platform = await startPlatform()
    stage.id = (await stage.platform.createProject()).id
    await asOwner(`
    create table notes (id int primary key, owner uuid default auth.uid(), body text, is_public boolean not null default false);
    insert into notes values (1, '${ann}', 'of ann', false), (2, '${bob}', 'of bob', false), (3, '${bob}', 'shown', true);
    create table members (team int, person uuid);
    create table teams (id int primary key, name text);
    insert into teams values (1, 'red'), (2, 'blue'); insert into members values (1, '${ann}')`)
  })
  after(() => stage.platform?.stop())

  const call = (method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<Reply> =>
    stage.platform.call(method, `/api/v1/projects/${stage.id}/rls${path}`, {
      token: stage.platform.adminToken,
      ...(body !== undefined && { body }),
      ...options,
    })
  async function asOwner(text: string) {
    const ref = await stage.platform.refOf(stage.id)
    return stage.platform.app.databases.asOwner({ ref }, session => session.script(text))
  }

  return {
    stage,
    call,
    asOwner,
    /** Creates a policy, which must succeed. */
    async policy(table: string, body: object) {
      const reply = await call('POST', `/tables/${encodeURIComponent(table)}/policies`, body)
      assert.equal(reply.status, 201, JSON.stringify(reply.body))
      return reply.body
    },
    /** Tests the access of a role, which must succeed. */
    async simulate(body: object) {
      const reply = await call('POST', '/test', body)
      assert.equal(reply.status, 200, JSON.stringify(reply.body))
      return reply.body
    },
  }
}
