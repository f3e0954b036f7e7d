// Secrets of a project, with a real platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { keyring } from '../../server/src/kernel/crypto/keys.ts'
import { sealer } from '../../server/src/kernel/crypto/sealed.ts'
import { sql } from '../../server/src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { type RunOptions, plinth as run, temporaryDirectory } from './plinth.ts'

let platform: TestPlatform
let slug: string
before(async () => {
  platform = await startPlatform()
  slug = (await platform.createProject()).slug
})
after(() => platform.stop())

/** Opens the sealed value. */
async function storedValue(name: string): Promise<string> {
  const row = await platform.app.control.row<{ value: string; project_id: string }>(
    sql`select value, project_id from secrets where name = ${name}`,
  )
  assert.match(row!.value, /^sealed:/)
  const key = keyring(platform.controlPlaneSecret)('sealed')
  return sealer(key).open(row!.value, `project:${row!.project_id}:secret:${name}`)
}

const cwd = temporaryDirectory()
const secrets = (args: string[], options: RunOptions = {}) => {
  const env = { PLATFORM_URL: platform.url, PLATFORM_TOKEN: platform.adminToken }
  return run(['secrets', ...args, '--project', slug], { cwd, ...options, env })
}

test('secrets set, list and delete', async () => {
  assert.match((await secrets(['list', '-o', 'text'])).stderr, /secrets set creates one/)
  const made = await secrets(['set', 'STRIPE_KEY', 'sk_test_1'])
  assert.equal(made.json.data.name, 'STRIPE_KEY')
  await secrets(['set', 'STRIPE_KEY', 'sk_test_2'])
  const listed = await secrets(['list'])
  assert.deepEqual([listed.json.data.total, listed.json.data.secrets[0].id], [1, made.json.data.id])
  assert.match((await secrets(['list', '-o', 'text'])).stdout, /NAME +UPDATED +ID\nSTRIPE_KEY/)
  assert.equal((await secrets(['delete', 'STRIPE_KEY'])).code, 0)
  const absent = await secrets(['delete', 'STRIPE_KEY'])
  assert.deepEqual([absent.code, absent.json.error.code], [1, 'secret_not_found'])
})

test('secrets set: reads the value from standard input, and its last line break does not count', async () => {
  for (const [input, value] of [
    ['piped\n', 'piped'],
    ['two\nlines\r\n', 'two\nlines'],
    ['', ''],
  ] as const) {
    const { code, stdout, stderr } = await secrets(['set', 'PIPED'], { input })
    assert.equal(code, 0, stderr)
    assert.equal(await storedValue('PIPED'), value)
    if (value) assert.ok(!stdout.includes(value))
  }
})
