// The log of a project, with a real platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { eventually } from '../../server/test/eventually.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { begin, type RunOptions, plinth as run } from './plinth.ts'
import { codes } from './storage-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_ANON: '0' } })
})
after(() => platform.stop())

const environment = ({ id }: CreatedProject) => ({
  PLATFORM_URL: platform.url,
  PLATFORM_TOKEN: platform.adminToken,
  PLATFORM_PROJECT: id,
})

const logs = (project: CreatedProject, args: string[] = [], options: RunOptions = {}) =>
  run(['logs', ...args], { env: environment(project), ...options })

/** Standard output as JSON lines. */
const entriesIn = (stdout: string): any[] =>
  stdout
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line))

/** Returns the request id. */
async function call(project: CreatedProject, path = 'whoami'): Promise<string> {
  const reply = await platform.call('GET', `/v1/${path}/${project.id}`, { apikey: project.anon_key })
  return reply.headers.get('x-request-id')!
}

const untilLogged = (project: CreatedProject, count: number) =>
  eventually(async () => {
    const entries = entriesIn((await logs(project)).stdout)
    return entries.length === count ? entries : undefined
  }, `${count} entries`)

test('logs: prints the latest entries as JSON lines, the oldest first', async () => {
  const project = await platform.createProject()
  const empty = await logs(project, ['-o', 'text'])
  assert.deepEqual([empty.code, empty.stdout, empty.stderr], [0, '', 'No entries.\n'])
  const ids = [await call(project), await call(project), await call(project)]
  const entries = await untilLogged(project, 3)
  assert.deepEqual(
    entries.map(each => each.request_id),
    ids,
  )
  const two = await logs(project, ['--limit', '2'])
  assert.deepEqual(
    entriesIn(two.stdout).map(each => each.request_id),
    ids.slice(1),
  )
  for (const args of [
    ['--project-id', project.id],
    ['--project-id', project.slug],
  ]) {
    const named = await run(['logs', ...args], {
      env: { ...environment(project), PLATFORM_PROJECT: 'other' },
    })
    assert.equal(entriesIn(named.stdout).length, 3)
  }
})

test('logs: prints one line of text for each entry', async () => {
  const project = await platform.createProject()
  const id = await call(project)
  await call(project, 'nothing')
  await untilLogged(project, 2)
  const { stdout } = await logs(project, ['-o', 'text'])
  const [first, second] = stdout.split('\n')
  assert.match(
    first!,
    /^\d{4}-\d\d-\d\dT[\d:.]+Z {2}info {3}GET \/v1\/whoami\/\{project\} 200 in [\d.]+ ms, anon, /,
  )
  assert.ok(first!.endsWith(`, anon, ${id}`))
  assert.match(second!, /GET \/v1\/\* 404 in/)
})

test('logs: filters are passed on, and the platform explains a wrong one', async () => {
  const project = await platform.createProject()
  const id = await call(project)
  await call(project, 'nothing')
  await untilLogged(project, 2)
  const statuses = async (...args: string[]) => {
    const { code, stdout } = await logs(project, args)
    assert.equal(code, 0)
    return entriesIn(stdout).map(each => each.status)
  }
  assert.deepEqual(await statuses('--status', '4xx'), [404])
  assert.deepEqual(await statuses('--route', 'whoami'), [200])
  assert.deepEqual(await statuses('--request-id', id), [200])
  assert.deepEqual(await statuses('--text', 'WHOAMI'), [200])
  assert.deepEqual(await statuses('--source', 'function'), [])
  assert.deepEqual(await statuses('--from', '2100-01-01T00:00:00Z'), [])
  assert.deepEqual(await statuses('--to', '2000-01-01T00:00:00Z'), [])
  assert.deepEqual(codes(await logs(project, ['--limit', '0'])), [1, 'usage_invalid_value'])
  const refused = await logs(project, ['--status', '9xx'])
  assert.deepEqual(codes(refused), [1, 'invalid_request'])
  assert.match(refused.json.error.message, /a status like 404, or a class like 5xx/)
})

test('logs --follow: prints each entry once, and Ctrl-C ends it with 0', async () => {
  const project = await platform.createProject()
  const expected = [await call(project)]
  await untilLogged(project, 1)
  const following = begin(['logs', '--follow'], { env: environment(project) })
  const filtered = begin(['logs', '-f', '--status', '404'], { env: environment(project) })
  after(following.interrupt)
  after(filtered.interrupt)
  const ids = () => entriesIn(following.stdout()).map(each => each.request_id)
  await eventually(() => ids().length === 1, 'the first entry')
  const missing: string[] = []
  for (let round = 0; round < 2; round++) {
    for (let count = 0; count < 20; count++) expected.push(await call(project))
    missing.push(await call(project, 'nothing'))
    expected.push(missing.at(-1)!)
    await eventually(() => ids().length >= expected.length, 'the next entries')
  }
  assert.deepEqual(ids(), expected)
  const found = () => entriesIn(filtered.stdout()).map(each => each.request_id)
  await eventually(() => found().length >= missing.length, 'the entries of the filter')
  assert.deepEqual(found(), missing)
  following.interrupt()
  filtered.interrupt()
  assert.deepEqual([await following.ended, await filtered.ended], [0, 0])
})
