import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const smtp = { host: 'mail.example', password: 'hunter2-hunter2' }

const stored = async (id: string) =>
  JSON.stringify(
    await platform.app.control.row(
      sql`select settings, anon_key, service_role_key, jwt_secret from projects where id = ${id}`,
    ),
  )

/** Stores the secrets unencrypted, like an older version. */
async function storePlain(project: {
  id: string
  anon_key: string
  service_role_key: string
  jwt_secret: string
}) {
  await platform.app.control.run(sql`
    update projects set settings = ${JSON.stringify({ smtp })}, anon_key = ${project.anon_key},
           service_role_key = ${project.service_role_key}, jwt_secret = ${project.jwt_secret}
     where id = ${project.id}`)
}

test('secrets at rest: keys, JWT secret and secrets in settings are stored encrypted', async () => {
  const project = await platform.projects.create({ body: { name: 'sealed', settings: { smtp } } })
  const row = await stored(project.id)
  for (const secret of [project.anon_key, project.service_role_key, project.jwt_secret, smtp.password])
    assert.ok(!row.includes(secret))
  assert.ok(row.includes('mail.example'))
})

test('secrets at rest: unencrypted secrets of an older version work and are encrypted on request', async () => {
  const project = await platform.createProject()
  await storePlain(project)
  const ask = () => platform.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key })
  assert.equal((await ask()).status, 200)
  assert.deepEqual((await platform.projects.read({ params: { id: project.id } })).settings, {
    smtp: { host: 'mail.example', password: '[redacted]' },
  })
  assert.equal((await platform.admin.encryptSettingsSecrets()).values_encrypted, 4)
  assert.ok(!(await stored(project.id)).includes(smtp.password))
  assert.ok(!(await stored(project.id)).includes(project.jwt_secret))
  assert.equal((await ask()).status, 200)
  assert.equal((await platform.admin.encryptSettingsSecrets()).values_encrypted, 0)
})

test('secrets at rest: the next write encrypts them', async () => {
  const project = await platform.createProject()
  await storePlain(project)
  await platform.projects.update({ params: { id: project.id }, body: { settings: { theme: 'dark' } } })
  assert.ok(!(await stored(project.id)).includes(smtp.password))
})

test('secrets at rest: the next start encrypts unencrypted secrets', async () => {
  const project = await platform.createProject()
  await storePlain(project)
  const later = await startPlatform({ beside: platform })
  try {
    const row = await stored(project.id)
    for (const secret of [project.service_role_key, project.jwt_secret, smtp.password])
      assert.ok(!row.includes(secret))
  } finally {
    await later.stop()
  }
})

test('secrets at rest: a deleted project leaves no credentials', async () => {
  const { id } = await platform.createProject()
  await platform.projects.remove({ params: { id } })
  const row = await platform.app.control.row(
    sql`select anon_key, service_role_key, jwt_secret, settings from projects where id = ${id}`,
  )
  assert.deepEqual(row, { anon_key: '', service_role_key: '', jwt_secret: '', settings: {} })
})
