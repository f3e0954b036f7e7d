// The cases of attacks.ts for backups: projects that are unusual to read, restore and compare. The control waits as long.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Attacked, Case } from './attack-cases.ts'
import { send } from './attack-send.ts'

const pollMs = 100
const controlMs = 3000

interface Listed {
  backups: {
    id: string
    status: string
    verified_at: string | null
    verify_error: string | null
    progress: unknown
  }[]
}

export function backupCases({ url, projectId, serviceKey, adminToken }: Attacked): Case[] {
  const at = `${url}/api/v1/projects/${projectId}/backups`
  const headers = { authorization: `Bearer ${adminToken}` }
  const runSql = async (sql: string) =>
    void (await send(url, {
      method: 'POST',
      path: `/v1/rest/${projectId}/rpc/exec_sql`,
      headers: { apikey: serviceKey, 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify({ sql })),
    }))

  /** Makes a backup, and waits until it is verified or has failed. */
  async function backUp(): Promise<number> {
    const created = await fetch(at, { method: 'POST', headers })
    const { id } = (await created.json()) as { id: string }
    for (let isVerifying = false; ; await sleep(pollMs)) {
      const { backups } = (await (await fetch(at, { headers })).json()) as Listed
      const backup = backups.find(each => each.id === id)
      if (!backup || backup.status === 'running' || backup.progress !== null) continue
      if (backup.status === 'failed' || isVerifying) return created.status
      const verifying = await fetch(`${at}/${id}/verify`, { method: 'POST', headers })
      await verifying.arrayBuffer()
      isVerifying = true
    }
  }
  const control = async () => {
    await sleep(controlMs)
    return send(url, { method: 'GET', path: `/api/v1/projects/${projectId}/backups`, headers })
  }
  const backupOf = (what: string, sql: string): Case => ({
    name: `backups: ${what}`,
    prepare: () => runSql(sql),
    control,
    attack: backUp,
  })

  return [
    backupOf(
      'a row of 60 MB and 500,000 small ones',
      `create table if not exists heavy (body text);
       insert into heavy select repeat(md5(random()::text), 1900000);
       insert into heavy select md5(n::text) from generate_series(1, 500000) n`,
    ),
    backupOf(
      '30 functions of 1 MB',
      `do $do$ begin
         for i in 1..30 loop
           execute format('create or replace function long_%s() returns text language sql as %L', i, 'select ''' || repeat('x', 1000000) || '''');
         end loop;
       end $do$`,
    ),
    backupOf(
      '30,000 functions',
      `do $do$ begin
         for i in 1..30000 loop
           execute format('create or replace function short_%s() returns int language sql as %L', i, 'select 1');
         end loop;
       end $do$`,
    ),
    backupOf(
      '60 tables of 1,600 columns and 9,000 large objects',
      `do $do$ begin
         for i in 1..60 loop
           execute format('create table if not exists wide_%s (%s)', i, (select string_agg('c' || n || ' int', ', ') from generate_series(1, 1600) n));
         end loop;
         perform lo_from_bytea(0, 'x') from generate_series(1, 9000);
       end $do$`,
    ),
  ]
}
