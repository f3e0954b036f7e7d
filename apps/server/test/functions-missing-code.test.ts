// The code of functions is deployed again after its bytes were lost.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { locateFunctions } from '#src/services/functions/place.ts'
import { functionsOf, saying } from '../../../conformance/functions.ts'
import { backedUpProject } from './backup-project.ts'
import { type FunctionsPlatform, startFunctionsPlatform } from './functions-platform.ts'

let it: FunctionsPlatform
before(async () => {
  it = await startFunctionsPlatform()
})
after(() => it?.stop())

const archivesNamed = async (project: string): Promise<string[]> =>
  (
    await it.platform.app.control.rows<{ id: string }>(sql`
      select distinct code_archive as id from function_versions where project_id = ${project}`)
  ).map(({ id }) => id)

/** All code of functions in the object store, of all projects. */
function removeLiveCode(): void {
  const objects = join(it.platform.config.dataDir, 'objects')
  const folders = fs.readdirSync(objects).filter(name => name.startsWith('f-'))
  assert.ok(folders.length > 0)
  for (const name of folders) fs.rmSync(join(objects, name), { recursive: true })
}

const forgetOnNode = (project: string) =>
  fs.rmSync(join(locateFunctions(it.platform.config.dataDir).codeDir, project), {
    recursive: true,
    force: true,
  })

/** Enough files that an archive with other times has another size. */
const source = (text: string) => ({
  entrypoint: 'index.ts',
  files: {
    'index.ts': saying(text),
    ...Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`file-${n}.txt`, `${n}`])),
  },
})

test('functions: backups stay complete when code whose bytes are lost is deployed again', async () => {
  const project = await backedUpProject(it.platform)
  await project.backups.configure({ params: { id: project.id }, body: { verify_enabled: false } })
  const own = functionsOf(it, project)
  await own.deploy('greet', source('hello'))
  assert.equal((await own.call('greet')).text, 'hello')
  const [archive] = await archivesNamed(project.id)
  const first = await project.backUp()
  assert.equal(first.error, null)
  const folder = join(it.platform.config.dataDir, 'backups', project.id)
  const backedUp = () =>
    fs
      .readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter(each => each.name.startsWith(archive!.slice(2)) || each.name.startsWith(archive!))
      .map(each => fs.readFileSync(join(each.parentPath, each.name)))
  const before = backedUp()
  assert.equal(before.length, 1)

  removeLiveCode()
  forgetOnNode(project.id)
  await own.deploy('greet', source('hello'))
  assert.equal((await own.call('greet')).text, 'hello')
  assert.equal((await own.manage('POST', '/greet/rollback', { version: 1 })).status, 200)
  forgetOnNode(project.id)
  assert.equal((await own.call('greet')).text, 'hello', 'the version before has its code again')
  const second = await project.backUp()
  assert.equal(second.error, null)
  for (const { id } of [first, second]) {
    const verified = await project.verify(id)
    assert.equal(verified.verify_error, null)
    assert.ok(verified.verified_at)
  }
  assert.deepEqual(backedUp(), before, 'a stored version never changes')
  assert.ok(!(await archivesNamed(project.id)).includes(archive!))

  assert.equal((await project.restore(first.id)).status, 'done')
  forgetOnNode(project.id)
  assert.equal((await own.call('greet')).text, 'hello')
})

test('functions: a deployment of lost code repairs all functions that have it', async () => {
  const own = await it.createProject()
  for (const name of ['one', 'two']) await own.deploy(name, source('shared'))
  for (const name of ['one', 'two']) assert.equal((await own.call(name)).text, 'shared')
  removeLiveCode()
  forgetOnNode(own.project.id)
  await own.deploy('one', source('shared'))
  assert.equal((await own.call('one')).text, 'shared')
  assert.equal((await own.call('two')).text, 'shared')
  assert.equal((await archivesNamed(own.project.id)).length, 1)
})
