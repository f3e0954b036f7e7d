// Creating a branch: with shared blocks against a bare CREATE DATABASE of the same database, and object by object against a
// backup and its restore as a new project. `--mb 64` makes the project smaller.
import { chmodSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { backupsApi } from '@plinth/contract/backups.ts'
import { branchesApi } from '@plinth/contract/branches.ts'
import { client } from '@plinth/contract/client.ts'
import { guardedSettings, withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { identifier } from '../apps/server/src/kernel/postgres/sql.ts'
import { report } from './measure.ts'
import { asSuperuser, engineIn, onStage, projectsAt, refOf, type Stage, startMain } from './stage.ts'
import { mountXfs } from './xfs-directory.ts'

const { values } = parseArgs({ options: { mb: { type: 'string', default: '1024' } } })
const megabytes = Number(values.mb)
const rounds = 3
const pollMs = 20
const smallestImageMb = 4096

const median = (times: readonly number[]) => times.toSorted((a, b) => a - b)[times.length >> 1]!

/** A platform with its embedded Postgres, and a project of the given size. */
async function prepare(stage: Stage) {
  const dataDir = stage.dataDir('platform')
  // As root the database runs as another user. Without access to the directory, it would be on another file system.
  for (const directory of [dirname(dataDir), dataDir]) chmodSync(directory, 0o711)
  const { url: baseUrl } = await startMain(stage, {}, dataDir)
  const { address, adminToken: token } = engineIn(dataDir)
  const project = await projectsAt(baseUrl, token).create({ body: { name: 'bench' } })
  const ref = await refOf(address, project.id)
  await withClient(address, ref, guardedSettings, async session => {
    await session.script(`
      create table public.notes (id bigint primary key, text text, at timestamptz default now());
      alter table public.notes owner to ${ref}_owner;
      create index on public.notes (at)`)
    // About 500 bytes a row.
    const rows = megabytes * 2000
    await session.script(
      `insert into public.notes (id, text) select n, repeat(md5(n::text), 12) from generate_series(1, ${rows}) n; checkpoint`,
    )
  })
  const options = { baseUrl, token }
  const [branches, backups] = [client(branchesApi, options), client(backupsApi, options)]
  const params = { id: project.id }

  /** Seconds until the branch is active. */
  async function branch(name: string): Promise<{ seconds: number; method: string | null }> {
    const startedAt = performance.now()
    const { slug } = await branches.create({ params, body: { name } })
    for (;;) {
      const { status, progress, method, error } = await branches.read({ params: { ...params, slug } })
      const seconds = (performance.now() - startedAt) / 1000
      if (status === 'failed') throw new Error(`the branch has failed: ${error}`)
      if (status === 'active' && progress === null) {
        await branches.remove({ params: { ...params, slug } })
        return { seconds, method }
      }
      await sleep(pollMs)
    }
  }

  /** Seconds until a backup was made and restored as a new project. */
  async function backUpAndRestore(): Promise<number> {
    const startedAt = performance.now()
    const { id: backupId } = await backups.create({ params })
    for (let isDone = false; !isDone; await sleep(pollMs)) {
      const { backups: list } = await backups.list({ params, query: {} })
      isDone = list.some(each => each.id === backupId && each.status === 'done' && each.progress === null)
    }
    const { restore } = await backups.restore({
      params: { ...params, backup_id: backupId },
      body: { new_project: { name: 'restored' } },
    })
    for (;;) {
      const { restores } = await backups.restores({ params, query: {} })
      const found = restores.find(each => each.id === restore.id)
      if (found?.status === 'failed') throw new Error(`the restore has failed: ${found.error}`)
      if (found?.status === 'done' && found.progress === null) break
      await sleep(pollMs)
    }
    const seconds = (performance.now() - startedAt) / 1000
    await projectsAt(baseUrl, token).remove({ params: { id: restore.new_project_id! } })
    return seconds
  }

  /** Seconds of a plain copy, which waits until nobody is connected. */
  async function copyBare(): Promise<number> {
    const copy = identifier('bench_copy')
    return asSuperuser(address, async session => {
      await session.script('checkpoint')
      for (;;) {
        const startedAt = performance.now()
        const isCopied = await session.script(`create database ${copy} template ${identifier(ref)}`).then(
          () => true,
          () => false,
        )
        if (!isCopied) continue
        const seconds = (performance.now() - startedAt) / 1000
        await session.script(`drop database ${copy}`)
        return seconds
      }
    })
  }

  /** While this session is there, branches are copied object by object. */
  const beside = <T>(work: () => Promise<T>): Promise<T> =>
    withClient(address, ref, guardedSettings, async session => {
      await session.script(`set application_name = 'bench'`)
      return work()
    })

  return { branch, backUpAndRestore, copyBare, beside }
}

const xfs = mountXfs(Math.max(smallestImageMb, megabytes * 4))
if (!xfs)
  process.stderr.write(
    'branches: no XFS here (it needs root and xfsprogs), so shared blocks are not measured\n',
  )
else {
  const before = process.env['TMPDIR']
  process.env['TMPDIR'] = xfs.directory
  try {
    await onStage(async stage => {
      const { branch, copyBare } = await prepare(stage)
      const [branched, bare]: [number[], number[]] = [[], []]
      const methods = new Set<string | null>()
      await branch('warm up')
      for (let round = 0; round < rounds; round++) {
        const { seconds, method } = await branch(`round ${round}`)
        branched.push(seconds)
        methods.add(method)
        bare.push(await copyBare())
      }
      report({
        bench: 'branches',
        subject: `a branch of ${megabytes} MB on XFS with shared blocks`,
        target: { atMost: 1 },
        measured: median(branched),
        unit: 's',
        methods: [...methods],
        bare_create_database_s: median(bare),
        rounds,
      })
    })
  } finally {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
    xfs.remove()
  }
}

await onStage(async stage => {
  const { branch, backUpAndRestore, beside } = await prepare(stage)
  const [branched, restored]: [number[], number[]] = [[], []]
  for (let round = 0; round < rounds; round++) {
    restored.push(await backUpAndRestore())
    branched.push(await beside(async () => (await branch(`round ${round}`)).seconds))
  }
  report({
    bench: 'branches',
    subject: `a branch of ${megabytes} MB object by object against a backup and its restore as a new project`,
    target: { atMost: 1.3 },
    measured: median(branched) / median(restored),
    unit: 'times',
    branch_s: median(branched),
    backup_and_restore_s: median(restored),
    rounds,
  })
})
