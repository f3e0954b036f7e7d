// What tests do with recovery to a time on a platform as an operator runs it.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { engineFiles } from '#src/kernel/postgres/engine/place.ts'
import { connectAsSuperuser } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { call } from './harness.ts'
import { createProject, manage, type RunningPlatform } from './platform-process.ts'

export const rest = (
  { url }: RunningPlatform,
  { id, service_role_key }: CreatedProject,
  method: string,
  path: string,
  body?: unknown,
) => call(`${url}/v1/rest/${id}/${path}`, method, { token: service_role_key, body })

export async function ask(dataDir: string, database: string, text: string): Promise<any[]> {
  const client = await connectAsSuperuser(dataDir, database)
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

export const pitr = (
  platform: RunningPlatform,
  { id }: CreatedProject,
  method: string,
  path: string,
  body?: unknown,
) => manage(platform, method, `/projects/${id}/pitr/${path}`, body)

export async function untilArchived(platform: RunningPlatform, project: CreatedProject): Promise<void> {
  await eventually(
    async () => (await pitr(platform, project, 'GET', 'restore-points')).body.window,
    'the first base backup is made',
  )
}

export const now = async (dataDir: string): Promise<string> =>
  (
    await ask(
      dataDir,
      'plinth',
      `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
    )
  )[0].at

/** A project with a note, a time, and another note after that time. */
export async function projectWithNotes(platform: RunningPlatform, name: string) {
  const project = await createProject(platform, name)
  const made = await rest(platform, project, 'POST', 'rpc/exec_sql', { sql: 'create table notes (n int)' })
  assert.ok(made.status < 300)
  await untilArchived(platform, project)
  await rest(platform, project, 'POST', 'notes', { n: 1 })
  const target = await now(platform.dataDir)
  await rest(platform, project, 'POST', 'notes', { n: 2 })
  return { project, target }
}

export async function jobOf(platform: RunningPlatform, project: CreatedProject, id: string) {
  const { body } = await pitr(platform, project, 'GET', 'jobs')
  return body.jobs.find((job: { id: string }) => job.id === id)
}

export async function untilOver(platform: RunningPlatform, project: CreatedProject, id: string) {
  let job: any
  await eventually(async () => {
    job = await jobOf(platform, project, id)
    return job.progress === null
  }, 'the job is over')
  return job
}

export async function request(
  platform: RunningPlatform,
  project: CreatedProject,
  target: string,
): Promise<string> {
  const { status, body } = await pitr(platform, project, 'POST', 'restore', { target_time: target })
  assert.equal(status, 202, JSON.stringify(body))
  return body.job.id
}

export const notes = async (platform: RunningPlatform, project: CreatedProject) =>
  (await rest(platform, project, 'GET', 'notes?order=n')).body.map(({ n }: { n: number }) => n)

export const recoveriesIn = (dataDir: string) =>
  fs.readdirSync(join(engineFiles(dataDir).clusterDir, '..')).filter(name => name.startsWith('recovery-'))

/** Waits until the archive was looked after since the start: base backup, pruning, windows. */
export async function untilMaintained({ url }: RunningPlatform): Promise<void> {
  await eventually(async () => {
    const text = await (await fetch(`${url}/metrics`)).text()
    return Number(/^plinth_pitr_window_seconds (\S+)$/m.exec(text)?.[1]) > 0
  }, 'the archive was looked after')
}

/** Waits until the state of now can be recovered, and recovers it. */
export async function recoverNow(platform: RunningPlatform, project: CreatedProject): Promise<any> {
  const id = await request(platform, project, await now(platform.dataDir))
  return untilOver(platform, project, id)
}
