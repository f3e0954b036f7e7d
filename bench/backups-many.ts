// Backups of many empty projects that are due at once. Option: --projects (100).
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { backupsApi } from '@plinth/contract/backups.ts'
import { client } from '@plinth/contract/client.ts'
import { report } from './measure.ts'
import { engineIn, onStage, projectsAt, startMain } from './stage.ts'

const { values: given } = parseArgs({ options: { projects: { type: 'string', default: '100' } } })
const count = Number(given.projects)
const pollMs = 200

await onStage(async stage => {
  const dataDir = stage.dataDir('platform')
  const { url: baseUrl } = await startMain(stage, {}, dataDir)
  const { adminToken: token } = engineIn(dataDir)
  const projects = projectsAt(baseUrl, token)
  const backups = client(backupsApi, { baseUrl, token })
  const ids: string[] = []
  for (let at = 0; at < count; at++) {
    const { id } = await projects.create({ body: { name: `bench ${at}` } })
    await backups.configure({ params: { id }, body: { verify_enabled: false } })
    ids.push(id)
  }
  const startedAt = performance.now()
  for (const id of ids) await backups.create({ params: { id } })
  for (const id of ids)
    for (;;) {
      const { backups: list } = await backups.list({ params: { id }, query: {} })
      const [backup] = list
      if (backup?.status === 'failed') throw new Error(`a backup has failed: ${backup.error}`)
      if (backup?.status === 'done') break
      await sleep(pollMs)
    }
  report({
    bench: 'backups-many',
    subject: `backups of ${count} empty projects`,
    target: { atMost: 120 },
    measured: (performance.now() - startedAt) / 1000,
    unit: 's',
  })
})
