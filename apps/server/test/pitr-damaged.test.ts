// The archive of a prepared copy is damaged before the cutover.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startPitrPlatform } from './pitr-platform.ts'
import { webhookProject } from './webhook-project.ts'

/** In the middle, so that neither a length nor a checksum at the end is hit. */
function flipByte(path: string): void {
  const bytes = fs.readFileSync(path)
  const at = Math.floor(bytes.length / 2)
  bytes[at] = bytes[at]! ^ 1
  fs.writeFileSync(path, bytes)
}

test('pitr: with a flipped byte in the archive of its copy a cutover fails, and the project is unchanged', async t => {
  const platform = await startPitrPlatform()
  t.after(() => platform.stop())
  const project = await webhookProject(platform)
  await project.sql('create table notes (n int); insert into notes values (1)')
  await platform.untilArchived(project.id)
  const target = await platform.now()
  await project.sql('insert into notes values (2)')
  const params = { id: project.id }
  await platform.projects.update({ params, body: { settings: { note: 'now' } } })
  const { id } = await platform.recover(project.id, target)

  const folder = join(platform.config.dataDir, 'recovered', project.id)
  const files = fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
  const isManifest = (path: string) => path.endsWith(`${id}-1-0.0`)
  assert.equal(files.filter(isManifest).length, 1)
  const ref = await platform.refOf(project.id)
  async function assertNotCutOver(damaged: readonly string[]): Promise<void> {
    for (const path of damaged) flipByte(path)
    const job = await platform.cutOver(project.id, id)
    assert.equal(job.status, 'prepared')
    assert.match(job.error!, /^A file of the archive is damaged/)
    assert.deepEqual(await project.rows('select n from public.notes order by n'), [{ n: 1 }, { n: 2 }])
    assert.equal((await platform.projects.read({ params })).settings['note'], 'now')
    // A verification that the platform begins by itself has a database for a moment.
    const databases = sql`
      select datname from pg_database
       where starts_with(datname, ${ref}) and datname <> ${`${ref}_verify`} order by 1`
    assert.deepEqual(await platform.app.control.rows(databases), [
      { datname: ref },
      { datname: `${ref}_recovered` },
    ])
    const running = sql`
      select from restores where status = 'running' union all select from backups where status = 'running'`
    assert.deepEqual(await platform.app.control.rows(running), [])
    for (const path of damaged) flipByte(path)
  }
  await assertNotCutOver(files.filter(isManifest))
  // The state before is backed up, and the rows of services are read in the transaction of the exchange.
  await assertNotCutOver(files.filter(path => !isManifest(path)))
  const { entries } = await platform.admin.listAudit({ query: { action: 'pitr.not_cut_over' } })
  assert.equal(entries.length, 2)

  const done = await platform.cutOver(project.id, id)
  assert.deepEqual([done.error, done.status], [null, 'done'])
  assert.deepEqual(await project.rows('select n from public.notes order by n'), [{ n: 1 }])
})
