// Document 2 §4.5: creating, reading, updating and deleting functions.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type FunctionsApi, functionsProject, saying } from '../functions.ts'
import { mintToken, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope } from '../wire.ts'

let it: Target
let own: FunctionsApi
before(async () => {
  it = await target()
  own = await functionsProject(it)
})
after(() => it.stop())

test('2 §4.5 a function is listed at once, without its code, and answers its first call', async () => {
  const created = await own.manage('POST', '', { name: 'first', code: saying('hello') })
  assert.equal(created.status, 201, created.text)
  const { id, created_at, updated_at, ...fields } = created.body
  assert.match(id, uuid)
  assert.equal(created_at, updated_at)
  assert.deepEqual(fields, {
    name: 'first',
    slug: 'first',
    status: 'ACTIVE',
    version: 1,
    verify_jwt: true,
    entrypoint: 'index.ts',
  })
  const list = await own.manage('GET', '')
  assert.deepEqual(list.body, { functions: [created.body], total: 1, limit: 50, offset: 0 })
  assert.equal((await own.call('first')).text, 'hello')
})

test('2 §4.5 reading a function returns its files, and an update makes a new version', async () => {
  await own.deploy('changing', { code: saying('one'), verify_jwt: false })
  const changed = await own.manage('PUT', '/changing', { code: saying('two') })
  assert.equal(changed.status, 200, changed.text)
  assert.equal(changed.body.version, 2)
  assert.equal(changed.body.verify_jwt, false)
  assert.equal((await own.call('changing')).text, 'two')
  const flag = await own.manage('PUT', '/changing', { verify_jwt: true })
  assert.equal(flag.body.version, 3)
  assert.equal(flag.body.verify_jwt, true)
  const read = await own.manage('GET', '/changing')
  assert.equal(read.status, 200, read.text)
  assert.equal(read.body.code, saying('two'))
  assert.deepEqual(read.body.files, { 'index.ts': saying('two') })
  assert.deepEqual(
    read.body.versions.map(({ version }: { version: number }) => version),
    [3, 2, 1],
  )
})

test('Issue: a folder has an entrypoint, modules, JSON, bytes and an import map', async () => {
  const files = {
    'main.ts': `
      import { name } from 'lib/name.ts'
      import data from './data.json' with { type: 'json' }
      import again from "lib/name.ts"
      const bytes = await Deno.readFile(new URL('./bytes.bin', import.meta.url))
      export default { fetch: () => Response.json({ name, again, data, bytes: [...bytes] }) }`,
    'library/name.ts': 'export const name: string = "ä"; export default name',
    'data.json': '{"a":1}',
    'bytes.bin': { base64: Buffer.from([0, 255, 128]).toString('base64') },
    'deno.json': '{ // with a comment\n "imports": { "lib/": "./library/" }, }',
  }
  await own.deploy('folder', { files, entrypoint: 'main.ts' })
  assert.deepEqual((await own.call('folder')).body, {
    name: 'ä',
    again: 'ä',
    data: { a: 1 },
    bytes: [0, 255, 128],
  })
  assert.deepEqual((await own.manage('GET', '/folder')).body.files, files)
})

test('Contract: the usual imports of existing functions work without the network', async () => {
  const code = `
    import "jsr:@supabase/functions-js/edge-runtime.d.ts"
    import { serve } from "https://deno.land/std@0.168.0/http/server.ts"
    serve(() => new Response('served'))`
  await own.deploy('legacy', code)
  assert.equal((await own.call('legacy')).text, 'served')
})

test('2 §4.5 the three ways to name a handler', async () => {
  await own.deploy('handler', 'export default (req: Request) => new Response(req.method)')
  await own.deploy('object', 'export default { fetch: (req: Request) => new Response(req.method) }')
  await own.deploy('serve', 'Deno.serve({ port: 1 }, req => new Response(req.method))')
  for (const name of ['handler', 'object', 'serve']) assert.equal((await own.call(name)).text, 'POST')
})

test('Issue: code that does not parse is 400 with file, line and column, and the running version stays', async () => {
  await own.deploy('stays', saying('still here'))
  const bad = await own.manage('PUT', '/stays', { code: 'const a = 1\nconst b = ;' })
  assertManagementError(bad, 'function_code_invalid', /^index\.ts:2:11: /)
  const inModule = await own.manage('PUT', '/stays', {
    files: { 'index.ts': 'import "./other.ts"', 'other.ts': '\n\n  {{' },
  })
  assertManagementError(inModule, 'function_code_invalid', /^other\.ts:3:/)
  assert.equal((await own.call('stays')).text, 'still here')
  assert.equal((await own.manage('GET', '/stays')).body.version, 1)
})

test('Issue: imports that cannot be resolved, or that leave the folder, are 400 with their position', async () => {
  const imports: [string, RegExp][] = [
    ['import "./missing.ts"', /missing\.ts/],
    ['import "/etc/passwd"', /^index\.ts:1:8: .*outside/],
    ['import "../../other/index.ts"', /^index\.ts:1:8: .*outside/],
    ['import "file:///etc/passwd"', /^index\.ts:1:8: .*outside/],
    ['import "https://example.com/x.ts"', /^index\.ts:1:8: .*npm:/],
    ['import "jsr:@std/path"', /^index\.ts:1:8: .*npm:/],
    ['import "lodash"', /^index\.ts:1:8: /],
    ['\nimport x from "npm:a b"', /index\.ts:2:15|npm/],
  ]
  for (const [code, message] of imports) {
    const reply = await own.manage('POST', '', { name: 'wrong', code })
    assertManagementError(reply, 'function_code_invalid', message)
    assert.doesNotMatch(reply.text, /root:x:|staging/)
  }
})

test('Issue: absolute and climbing paths, and other bad names of files, are refused', async () => {
  const paths = [
    '/etc/passwd',
    '../x.ts',
    'a/../../x.ts',
    'a//b.ts',
    './x.ts',
    'a\\b.ts',
    'C:/x.ts',
    'a\u0000.ts',
    '',
  ]
  for (const path of [...paths, 'node_modules/x/index.js', 'x'.repeat(600), `${'d/'.repeat(60)}x`]) {
    const files = { 'index.ts': saying('x'), [path]: '' }
    const reply = await own.manage('POST', '', { name: 'paths', files })
    assertManagementError(reply, 'function_code_invalid')
  }
  const both = { 'index.ts': saying('x'), a: '', 'a/b': '' }
  const folders = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`a${n}/b/c/x`, '']))
  for (const files of [both, { 'index.ts': saying('x'), ...folders }])
    assertManagementError(await own.manage('POST', '', { name: 'paths', files }), 'function_code_invalid')
})

test('2 §4.5 bodies that do not make sense are refused', async () => {
  const refused: [object, 'function_code_invalid' | 'invalid_request'][] = [
    [{ name: 'x' }, 'function_code_invalid'],
    [{ name: 'x', code: 'x', files: { 'index.ts': 'x' } }, 'invalid_request'],
    [{ name: 'x', files: {} }, 'invalid_request'],
    [{ name: 'x', files: { 'other.ts': '' } }, 'function_code_invalid'],
    [{ name: 'x', files: { 'index.ts': '' }, entrypoint: 'main.ts' }, 'function_code_invalid'],
    [{ name: 'x', files: { 'index.ts': { base64: '!' } } }, 'function_code_invalid'],
    [{ name: 'x', code: 'x', verify_jwt: 'no' }, 'invalid_request'],
    ...['', '.', '../x', 'a b', 'a/b', 'ä', '-x', 'x'.repeat(65)].map((name): [object, 'invalid_request'] => [
      { name, code: 'x' },
      'invalid_request',
    ]),
  ]
  for (const [body, code] of refused) assertManagementError(await own.manage('POST', '', body), code)
})

test('2 §8 code of more than 10 MB is 413, also as base64', async () => {
  const almost = 10 * 1024 * 1024
  const code = `${saying('large')}//`
  const fits = await own.manage('POST', '', { name: 'large', code: code.padEnd(almost, 'x') })
  assert.equal(fits.status, 201, fits.text)
  assert.equal((await own.call('large')).text, 'large')
  const over = await own.manage('POST', '', { name: 'larger', code: code.padEnd(almost + 1, 'x') })
  assertManagementError(over, 'function_too_large')
  const files = { 'index.ts': code, 'data.bin': { base64: Buffer.alloc(almost).toString('base64') } }
  assertManagementError(await own.manage('POST', '', { name: 'larger', files }), 'function_too_large')
})

test('2 §4.5 POST of an existing name is 409, and unknown names are 404', async () => {
  await own.deploy('taken', saying('x'))
  assertManagementError(await own.manage('POST', '', { name: 'taken', code: saying('y') }), 'function_exists')
  for (const [method, path, body] of [
    ['GET', '/absent'],
    ['PUT', '/absent', { code: saying('x') }],
    ['DELETE', '/absent'],
    ['GET', '/absent/logs'],
    ['POST', '/absent/rollback', { version: 1 }],
  ] as const)
    assertManagementError(await own.manage(method, path, body), 'function_not_found')
})

test('2 §4.5 a deleted function is gone, and its name can be used again', async () => {
  await own.deploy('fleeting', saying('old'))
  assert.equal((await own.call('fleeting')).text, 'old')
  assert.equal((await own.manage('DELETE', '/fleeting')).status, 204)
  assert.equal((await own.call('fleeting')).status, 404)
  assert.equal((await own.deploy('fleeting', saying('new'))).version, 1)
  assert.equal((await own.call('fleeting')).text, 'new')
  assert.deepEqual(
    (await own.logs('fleeting')).filter(({ version }) => version !== 1),
    [],
  )
})

test('Issue: a rollback deploys one of the ten previous versions again', async () => {
  const other = await functionsProject(it)
  for (let version = 1; version <= 12; version++)
    assert.equal((await other.deploy('many', saying(`version ${version}`))).version, version)
  assertManagementError(
    await other.manage('POST', '/many/rollback', { version: 1 }),
    'function_version_not_found',
  )
  const back = await other.manage('POST', '/many/rollback', { version: 2 })
  assert.equal(back.status, 200, back.text)
  assert.equal(back.body.version, 13)
  assert.equal((await other.call('many')).text, 'version 2')
  const { versions, code } = (await other.manage('GET', '/many')).body
  assert.equal(code, saying('version 2'))
  assert.deepEqual(
    versions.map(({ version }: { version: number }) => version),
    [13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3],
  )
})

test('2 §4.5 scopes: reading lists and reads, deploying writes and reads logs, deleting needs admin', async () => {
  const [read, deploy] = [(await mintToken(it, 'read')).token, (await mintToken(it, 'deploy')).token]
  const root = `/api/v1/projects/${own.project.id}/functions`
  const ask = (method: string, path: string, token: string, body?: unknown) =>
    it.call(method, root + path, { token, body })
  const code = saying('scoped')
  assertNeedsScope(await ask('POST', '', read, { name: 'scoped', code }), 'deploy')
  assert.equal((await ask('POST', '', deploy, { name: 'scoped', code })).status, 201)
  assert.equal((await ask('GET', '', read)).status, 200)
  assert.equal((await ask('GET', '/scoped', read)).status, 200)
  assertNeedsScope(await ask('PUT', '/scoped', read, { code }), 'deploy')
  assertNeedsScope(await ask('POST', '/scoped/rollback', read, { version: 1 }), 'deploy')
  assertNeedsScope(await ask('GET', '/scoped/logs', read), 'deploy')
  assert.equal((await ask('GET', '/scoped/logs', deploy)).status, 200)
  assertNeedsScope(await ask('DELETE', '/scoped', deploy), 'admin')
})

test('Issue: the quota max_functions is 429', async () => {
  const small = await functionsProject(it)
  const reply = await it.manage('PATCH', `/projects/${small.project.id}`, { quotas: { max_functions: 1 } })
  assert.equal(reply.status, 200, reply.text)
  await small.deploy('one', saying('1'))
  assertManagementError(
    await small.manage('POST', '', { name: 'two', code: saying('2') }),
    'too_many_functions',
  )
  assert.equal((await small.deploy('one', saying('1b'))).version, 2)
})
