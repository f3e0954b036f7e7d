// The cases of attacks.ts for branches: a parent with a schema that is unusual to copy and to compare. The control waits
// as long.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Attacked, Case } from './attack-cases.ts'
import { send } from './attack-send.ts'

const pollMs = 100
const controlMs = 3000

export function branchCases({ url, projectId, serviceKey, adminToken }: Attacked): Case[] {
  const at = `${url}/api/v1/projects/${projectId}/branches`
  const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
  const runSql = async (sql: string) =>
    void (await send(url, {
      method: 'POST',
      path: `/v1/rest/${projectId}/rpc/exec_sql`,
      headers: { apikey: serviceKey, 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify({ sql })),
    }))

  /** Creates an empty copy of the schema, compares it after a change, and deletes it. */
  async function branch(change: string): Promise<number> {
    const body = JSON.stringify({ name: 'attack', schema_only: true })
    const created = await fetch(at, { method: 'POST', headers, body })
    await created.arrayBuffer()
    await runSql(change)
    for (let status = 'creating'; status === 'creating'; await sleep(pollMs))
      status = ((await (await fetch(`${at}/attack`, { headers })).json()) as { status: string }).status
    const diff = await fetch(`${at}/attack/diff`, { headers })
    await diff.arrayBuffer()
    await fetch(`${at}/attack`, { method: 'DELETE', headers })
    return Math.max(created.status, diff.status)
  }
  const control = async () => {
    await sleep(controlMs)
    return send(url, { method: 'GET', path: `/api/v1/projects/${projectId}/branches`, headers })
  }
  const branchOf = (
    what: string,
    sql: string,
    change = 'create table if not exists later (n int)',
  ): Case => ({
    name: `branches: ${what}`,
    prepare: () => runSql(sql),
    control,
    attack: () => branch(change),
  })

  return [
    branchOf(
      'a schema with 30 functions of 1 MB',
      `do $do$ begin
         for i in 1..30 loop
           execute format('create or replace function long_%s() returns text language sql as %L', i, 'select ''' || repeat('x', 1000000) || '''');
         end loop;
       end $do$`,
    ),
    branchOf(
      'a schema with 2,000 tables of 20 columns',
      `do $do$ begin
         for i in 1..2000 loop
           execute format('create table if not exists wide_%s (%s)', i, (select string_agg(format('c%s text', c), ', ') from generate_series(1, 20) c));
         end loop;
       end $do$`,
    ),
    branchOf(
      'a table of 800 columns that change their type, and 790 columns that are computed from one of them',
      `do $do$ declare long text := (select string_agg(n::text, ',') from generate_series(1, 2000) n); begin
         execute format('create table if not exists computed (%s, %s)',
           (select string_agg(format('c%s int', c), ', ') from generate_series(1, 800) c),
           (select string_agg(format('g%s boolean generated always as (c1 = any (array[%s])) stored', c, long), ', ') from generate_series(1, 790) c));
       end $do$`,
      // In parts, because all at once would take more memory than a session may have.
      `do $do$ begin
         for part in 0..19 loop
           execute (select 'alter table computed ' || string_agg(format('alter column c%s type bigint', c), ', ') from generate_series(part * 40 + 2, least(part * 40 + 41, 800)) c);
         end loop;
       end $do$`,
    ),
  ]
}
