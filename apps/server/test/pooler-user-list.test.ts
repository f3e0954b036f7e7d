// The user list of PgBouncer: its lines, who can read it, and what happens if it cannot be written. The tests with a real
// PgBouncer are in test-pooler/.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, afterEach, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { readUserList, removeLeftovers, replaceUserList } from '#src/services/pooler/user-list-file.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { isRoot } from './platform-process.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'plinth-user-list-'))
const path = join(root, 'pooler', 'userlist.txt')
const monitoring = '"monitoring" "their secret"'
let platform: TestPlatform
before(async () => {
  fs.mkdirSync(dirname(path))
  fs.writeFileSync(path, `${monitoring}\n`)
  fs.chmodSync(path, 0o640)
  if (isRoot) fs.chownSync(path, 12_345, 54_321)
  platform = await startPlatform({ settings: settings(path) })
})
const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})
after(async () => {
  await platform?.stop()
  fs.rmSync(root, { recursive: true, force: true })
})

const settings = (userList: string) => ({
  PLATFORM_POOLER_URL: 'postgres://pool.test:6432?sslmode=require',
  PLATFORM_POOLER_USERLIST: userList,
})
const list = (file = path) => fs.readFileSync(file, 'utf8')
const reveal = (id: string, at = platform) =>
  at.call('GET', `/api/v1/projects/${id}/pooler`, { token: at.adminToken })
const warningsOf = async (at: TestPlatform): Promise<string[]> =>
  (await at.call('GET', '/api/v1/health/services')).body.warnings
async function storedLine(id: string): Promise<string> {
  const role = `${await platform.refOf(id)}_owner`
  const [stored] = await platform.asSuperuser('postgres', async session => {
    const rows: string[] = []
    await session.results(`select rolpassword from pg_authid where rolname = '${role}'`, {
      begin() {},
      row: fields => void rows.push(String(fields[0])),
    })
    return rows
  })
  return `"${role}" "${stored}"`
}

test('user list: a created project is added with the verifier that Postgres has, and a deleted one removed', async () => {
  const { id } = await platform.createProject()
  const line = await storedLine(id)
  await eventually(() => list().split('\n').includes(line), 'the project is in the list')
  const { body } = await reveal(id)
  const pooled = new URL(body.pooled)
  assert.deepEqual([pooled.host, pooled.search], ['pool.test:6432', '?sslmode=require'])
  assert.equal(pooled.password, new URL(body.direct).password)
  await platform.projects.suspend({ params: { id } })
  await reveal(id)
  assert.ok(list().includes(line))
  await platform.projects.remove({ params: { id } })
  assert.ok(!list().includes(line))
})

test('user list: other users stay, and so do owner, group and mode of the file', async () => {
  const { id } = await platform.createProject()
  await reveal(id)
  assert.ok(list().includes(await storedLine(id)))
  assert.ok(list().endsWith(`\n${monitoring}\n`))
  const { mode, uid, gid } = fs.statSync(path)
  assert.equal(mode & 0o777, 0o640)
  if (isRoot) assert.deepEqual([uid, gid], [12_345, 54_321])
})

test('user list: a list that is missing or was changed by hand is written again', async () => {
  const { id } = await platform.createProject()
  await reveal(id)
  const complete = list()
  fs.writeFileSync(path, `"p_${'z'.repeat(20)}_owner" "intruder"\n${monitoring}\n`)
  await reveal(id)
  assert.equal(list(), complete)
  fs.rmSync(path)
  await reveal(id)
  assert.equal(`${list()}${monitoring}\n`, complete)
  assert.equal(fs.statSync(path).mode & 0o777, 0o600)
  fs.writeFileSync(path, complete)
})

test('user list: another node writes the same list', async () => {
  const { id } = await platform.createProject()
  await reveal(id)
  const second = join(root, 'second.txt')
  fs.writeFileSync(second, `${monitoring}\n`)
  const node = await startPlatform({ beside: platform, settings: settings(second) })
  undo.push(() => node.stop())
  await reveal(id, node)
  assert.equal(list(second), list())
})

test('user list: a repaired login keeps its verifier', async () => {
  const { id } = await platform.createProject()
  const line = await storedLine(id)
  const ref = await platform.refOf(id)
  await platform.asSuperuser('postgres', session => session.script(`alter role ${ref}_owner password 'mine'`))
  await reveal(id)
  assert.equal(await storedLine(id), line)
  assert.ok(list().includes(line))
})

test('user list: a text of the project never gets into the list', async () => {
  const { id } = await platform.createProject()
  const line = await storedLine(id)
  const ref = await platform.refOf(id)
  const verifier = line.split('"')[3]!
  // Postgres accepts white space before the iterations, and PgBouncer would ignore the rest of the file.
  await platform.asSuperuser('postgres', session =>
    session.script(`alter role ${ref}_owner password '${verifier.replace('$4096', '$\n4096')}'`),
  )
  await reveal((await platform.createProject()).id)
  assert.ok(list().includes(line))
  assert.ok(!list().includes('$\n'))
})

test('user list: if it cannot be written, health warns without a path, and projects are served', async () => {
  const missing = join(root, 'missing')
  const node = await startPlatform({ beside: platform, settings: settings(join(missing, 'list.txt')) })
  undo.push(() => node.stop())
  const { id } = await node.createProject()
  assert.equal((await reveal(id, node)).status, 200)
  const [warning, ...more] = await warningsOf(node)
  assert.match(warning!, /user list of the pooler .*\(ENOENT\).*PLATFORM_POOLER_USERLIST/)
  assert.deepEqual(more, [])
  assert.ok(!warning!.includes(root))
  fs.mkdirSync(missing)
  await reveal(id, node)
  assert.deepEqual(await warningsOf(node), [])
  assert.ok(list(join(missing, 'list.txt')).includes(await storedLine(id)))
  await node.projects.remove({ params: { id } })
})

test('user list: PgBouncer can tell each new file from the one before', async () => {
  const file = join(root, 'times.txt')
  let before = 0
  for (const text of ['a', 'b', 'c', 'd']) {
    await replaceUserList(file, text, (await readUserList(file))?.stats)
    const seconds = Math.floor(fs.statSync(file).mtimeMs / 1000)
    assert.ok(seconds > before)
    before = seconds
  }
})

const writer = `
  import { readUserList, replaceUserList } from ${JSON.stringify(fileURLToPath(new URL('../src/services/pooler/user-list-file.ts', import.meta.url)))}
  for (let turn = 0; ; turn++) {
    const text = (turn % 2 ? 'odd\\n' : 'even\\n').repeat(200_000)
    await replaceUserList(process.argv[1], text, (await readUserList(process.argv[1]))?.stats)
    process.stdout.write('.')
  }`

test('user list: a platform that is killed while it writes leaves a complete list', async () => {
  const file = join(root, 'killed.txt')
  for (let turn = 0; turn < 8; turn++) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', writer, file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = once(child, 'exit')
    await once(child.stdout, 'data')
    // In the middle of the next file, as soon as it has begun.
    await eventually(() => fs.globSync(`${file}.new-*`).length > 0, 'it writes')
    child.kill('SIGKILL')
    await ended
    const lines = list(file).split('\n')
    assert.equal(lines.length, 200_001)
    assert.equal(new Set(lines).size, 2)
  }
})

test('user list: unfinished files of killed platforms are removed, and those of running ones stay', async () => {
  const file = join(root, 'left.txt')
  const [old, young] = ['old', 'young'].map(name => `${file}.new-${name}`)
  for (const each of [old!, young!, file, `${file}.bak`]) fs.writeFileSync(each, 'x')
  const before = Date.now() / 1000 - 3600
  for (const each of [old!, file, `${file}.bak`]) fs.utimesSync(each, before, before)
  await removeLeftovers(file)
  assert.deepEqual(fs.globSync(`${file}*`).sort(), [file, `${file}.bak`, young!].sort())
})
