// npm packages of functions, from a registry on this machine: they are installed when a function is deployed, and a call
// needs no registry.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { locateFunctions } from '#src/services/functions/place.ts'
import { type FunctionsApi, functionsOf, saying } from '../../../conformance/functions.ts'
import { assertManagementError } from '../../../conformance/wire.ts'
import { eventually } from './eventually.ts'
import { type FunctionsPlatform, startFunctionsPlatform } from './functions-platform.ts'
import { Registry } from './npm-registry.ts'

const registry = new Registry()
/** Install scripts would write here. */
const marks = fs.mkdtempSync(join(tmpdir(), 'plinth-marks-'))
let it: FunctionsPlatform
before(async () => {
  fs.chmodSync(marks, 0o777)
  registry.add(
    {
      name: 'greeting',
      version: '1.4.0',
      type: 'module',
      exports: { '.': './main.js', './loud': './loud.js' },
    },
    { 'main.js': `export const greet = name => 'hello ' + name`, 'loud.js': `export default 'HELLO'` },
  )
  registry.add(
    { name: 'greeting', version: '2.0.1', type: 'module', exports: './main.js' },
    { 'main.js': `export const greet = name => 'good day ' + name` },
  )
  registry.add(
    {
      name: 'politeness',
      version: '0.1.0',
      type: 'module',
      main: 'index.js',
      dependencies: { greeting: '^1.0.0' },
    },
    { 'index.js': `import { greet } from 'greeting'\nexport const polite = name => greet('dear ' + name)` },
  )
  registry.add(
    {
      name: 'old-style',
      version: '3.0.0',
      main: 'lib/index.js',
      dependencies: { '@plinth-test/scoped': '1.x' },
    },
    {
      'lib/index.js': `const scoped = require('@plinth-test/scoped')\nmodule.exports = { size: require('./size.json').size, scoped, dir: typeof __dirname }`,
      'lib/size.json': '{"size":42}',
    },
  )
  registry.add(
    { name: '@plinth-test/scoped', version: '1.2.3' },
    { 'index.js': `module.exports = 'scoped 1.2.3'` },
  )
  registry.add(
    {
      name: 'scripted',
      version: '1.0.0',
      scripts: Object.fromEntries(
        ['preinstall', 'install', 'postinstall', 'prepare'].map(name => [
          name,
          `touch ${marks}/${name} ./${name}`,
        ]),
      ),
    },
    { 'index.js': `module.exports = 'not prepared'` },
  )
  registry.addInstalled('@supabase/supabase-js')
  await registry.open()
  it = await startFunctionsPlatform({ PLATFORM_NPM_REGISTRY: registry.url })
})
after(async () => {
  await it?.stop()
  await registry.close()
  registry.remove()
  fs.rmSync(marks, { recursive: true, force: true })
})

const packagesOf = async (own: FunctionsApi, name: string): Promise<string[]> =>
  (await own.manage('GET', `/${name}`)).body.packages

const using = (specifier: string, expression: string) =>
  `import * as it from ${JSON.stringify(specifier)}\nDeno.serve(() => Response.json(${expression}))`

const archivesOf = async ({ project }: FunctionsApi): Promise<number> =>
  (await it.platform.app.control.row<{ count: number }>(
    sql`select count(*)::int as count from function_archives where project_id = ${project.id}`,
  ))!.count

test('packages: a function imports packages, their dependencies, CommonJS, scoped ones and sub-paths', async () => {
  const own = await it.createProject()
  await own.deploy(
    'many',
    `
    import { polite } from 'npm:politeness@0.1.0'
    import old from 'npm:old-style'
    import scoped from 'npm:@plinth-test/scoped@^1.0.0'
    import loud from 'npm:greeting@1/loud'
    Deno.serve(async () => {
      const { greet } = await import('npm:greeting@1')
      return Response.json([polite('Ada'), old.size, old.scoped, old.dir, scoped, loud, greet('x')])
    })`,
  )
  const reply = await own.call('many')
  assert.deepEqual(
    reply.body,
    ['hello dear Ada', 42, 'scoped 1.2.3', 'string', 'scoped 1.2.3', 'HELLO', 'hello x'],
    reply.text,
  )
  assert.deepEqual(await packagesOf(own, 'many'), [
    '@plinth-test/scoped@1.2.3',
    'greeting@1.4.0',
    'old-style@3.0.0',
    'politeness@0.1.0',
  ])
  await own.deploy('none', saying('no packages'))
  assert.deepEqual(await packagesOf(own, 'none'), [])
})

test('packages: bare imports are found through the import map of deno.json, in all files', async () => {
  const own = await it.createProject()
  const files = {
    'deno.json': JSON.stringify({
      imports: { hi: 'npm:greeting@^1.0.0', 'hi/': 'npm:/greeting@^1.0.0/', '@/': './lib/' },
    }),
    'index.ts': `
      import { greet } from 'hi'
      import loud from 'hi/loud'
      import { both } from '@/both.ts'
      Deno.serve((): Response => Response.json([greet('a'), loud, both]))`,
    'lib/both.ts': `import { greet } from "hi"\nexport const both: string = greet('b')`,
  }
  await own.deploy('mapped', { files })
  const reply = await own.call('mapped')
  assert.deepEqual(reply.body, ['hello a', 'HELLO', 'hello b'], reply.text)
  const { body } = await own.manage('GET', '/mapped')
  assert.deepEqual(body.packages, ['greeting@1.4.0'])
  assert.deepEqual(body.files, files, 'the files are returned as they were sent')
})

test('packages: two versions of one package work side by side, in one function and in two', async () => {
  const own = await it.createProject()
  await own.deploy(
    'both',
    `
    import { greet as one } from 'npm:greeting@1'
    import { greet as two } from 'npm:greeting@2'
    import { polite } from 'npm:politeness'
    Deno.serve(() => Response.json([one('a'), two('a'), polite('a')]))`,
  )
  await own.deploy('older', using('npm:greeting@1', `it.greet('b')`))
  await own.deploy('newer', using('npm:greeting', `it.greet('b')`))
  assert.deepEqual((await own.call('both')).body, ['hello a', 'good day a', 'hello dear a'])
  assert.equal((await own.call('older')).body, 'hello b')
  assert.equal((await own.call('newer')).body, 'good day b')
  assert.deepEqual(await packagesOf(own, 'both'), ['greeting@1.4.0', 'greeting@2.0.1', 'politeness@0.1.0'])
  assert.deepEqual(await packagesOf(own, 'newer'), ['greeting@2.0.1'])
})

test('packages: a function reads rows of its project with createClient of npm:@supabase/supabase-js', async () => {
  const own = await it.createProject()
  const ref = await it.platform.refOf(own.project.id)
  await it.platform.app.databases.asOwner({ ref }, session =>
    session.script(`
      create table public.things (id int primary key, name text);
      insert into public.things values (1, 'lamp'), (2, 'chair');
      grant select, insert on public.things to service_role`),
  )
  await own.deploy(
    'rows',
    `
    import { createClient } from 'npm:@supabase/supabase-js@2'
    Deno.serve(async () => {
      const client = createClient(Deno.env.get('SUPABASE_URL'), Deno.env.get('SUPABASE_SERVICE_ROLE_KEY'))
      const added = await client.from('things').insert({ id: 3, name: 'table' })
      const read = await client.from('things').select('name').order('id')
      return Response.json({ added: added.error, error: read.error, data: read.data })
    })`,
  )
  const reply = await own.call('rows')
  assert.deepEqual(
    reply.body,
    { added: null, error: null, data: [{ name: 'lamp' }, { name: 'chair' }, { name: 'table' }] },
    reply.text,
  )
})

test('packages: install scripts do not run', async () => {
  const own = await it.createProject()
  await own.deploy(
    'scripted',
    `
    import scripted from 'npm:scripted'
    import { createRequire } from 'node:module'
    Deno.serve(async () => {
      const folder = createRequire(import.meta.url).resolve('scripted').replace(/[^/]*$/, '')
      const names = []
      for await (const { name } of Deno.readDir(folder)) names.push(name)
      return Response.json([scripted, names.sort()])
    })`,
  )
  const reply = await own.call('scripted')
  assert.deepEqual(reply.body, ['not prepared', ['index.js', 'package.json']], reply.text)
  assert.deepEqual(fs.readdirSync(marks), [])
})

test('packages: the modes of files in a package do not matter', async () => {
  registry.add(
    { name: 'private-modes', version: '1.0.0', main: 'index.js' },
    { 'index.js': `module.exports = 'read'` },
    ['--mode=u=rwXs,go='],
  )
  const own = await it.createProject()
  await own.deploy('modes', using('npm:private-modes@1', 'it.default'))
  assert.equal((await own.call('modes')).body, 'read')
})

test('packages: links and absolute or climbing paths in a package lead nowhere', async () => {
  const own = await it.createProject()
  const outside = join(marks, 'outside.js')
  const main = { 'index.js': `module.exports = 'main'` }
  registry.add(
    { name: 'linked', version: '1.0.0' },
    {
      ...main,
      'passwd.js': { link: '/etc/passwd' },
      'up.js': { link: '../../../../../../../../../../etc/passwd' },
    },
  )
  for (const [name, target] of [
    ['absolute', outside],
    ['climbing', `package/${'../'.repeat(30)}${outside.slice(1)}`],
  ] as const)
    registry.add({ name, version: '1.0.0' }, { ...main, 'evil.js': 'evil' }, [
      '-P',
      '--transform',
      `s,^package/evil.js,${target},`,
    ])
  for (const name of ['linked', 'absolute', 'climbing']) {
    const created = await own.manage('POST', '', {
      name,
      code: `
        import main from 'npm:${name}'
        import { createRequire } from 'node:module'
        Deno.serve(async () => {
          const folder = createRequire(import.meta.url).resolve('${name}').replace(/[^/]*$/, '')
          const read = []
          for (const file of ['passwd.js', 'up.js'])
            read.push(await Deno.readTextFile(folder + file).catch(() => 'not readable'))
          return Response.json([main, ...read])
        })`,
    })
    if (created.status === 201)
      assert.deepEqual((await own.call(name)).body, ['main', 'not readable', 'not readable'])
    else assertManagementError(created, 'function_code_invalid')
    assert.deepEqual(fs.readdirSync(marks), [], `${name} has written nothing outside`)
  }
  assertManagementError(await own.manage('GET', '/climbing'), 'function_not_found')
})

test('packages: a function with the same packages stores them once', async () => {
  const own = await it.createProject()
  await own.deploy('first', using('npm:greeting@1', `it.greet('first')`))
  assert.equal(await archivesOf(own), 2, 'the code and the packages')
  await own.deploy('second', using('npm:greeting@1', `it.greet('second')`))
  assert.equal(await archivesOf(own), 3, 'only the code is new')
  await own.deploy('second', using('npm:greeting@1', `it.greet('second')`))
  assert.equal(await archivesOf(own), 3, 'nothing is new')
  await own.deploy('second', using('npm:greeting@2', `it.greet('second')`))
  assert.equal(await archivesOf(own), 5, 'another version')
  assert.equal((await own.call('first')).body, 'hello first')
  assert.equal((await own.call('second')).body, 'good day second')
})

test('packages: a package, version or file that does not exist is 400, and the version before still answers', async () => {
  const own = await it.createProject()
  registry.add(
    { name: 'incomplete', version: '1.0.0', dependencies: { absent: '^1.0.0' } },
    { 'index.js': '' },
  )
  const wrong: [string, RegExp][] = [
    ['npm:absent', /absent/],
    ['npm:greeting@9', /greeting/],
    ['npm:incomplete', /absent/],
    ['npm:greeting@1/missing', /missing/],
    ['npm:Not A Package', /npm/],
  ]
  for (const [specifier, message] of wrong) {
    const created = await own.manage('POST', '', { name: 'wrong', code: using(specifier, '1') })
    assertManagementError(created, 'function_code_invalid', message)
    assert.doesNotMatch(created.text, /\/staging\/|\.deno\//, 'no path of the server')
  }
  assertManagementError(await own.manage('GET', '/wrong'), 'function_not_found')
  await own.deploy('right', using('npm:greeting@1', `it.greet('still')`))
  const updated = await own.manage('PUT', '/right', { code: using('npm:absent', '1') })
  assertManagementError(updated, 'function_code_invalid')
  assert.equal((await own.call('right')).body, 'hello still')
  assert.equal((await own.manage('GET', '/right')).body.version, 1)
})

test('packages: a call needs no registry, neither in a new worker nor on a node without the files', async () => {
  const local = new Registry()
  local.add({ name: 'lasting', version: '1.0.0' }, { 'index.js': `module.exports = 'lasting'` })
  await local.open()
  const quick = await startFunctionsPlatform({
    PLATFORM_NPM_REGISTRY: local.url,
    RUNTIME_WORKER_IDLE_MS: '100',
  })
  try {
    const own = await quick.createProject()
    await own.deploy('lasting', using('npm:lasting', 'it.default'))
    await own.deploy('later', `Deno.serve(async () => Response.json((await import('npm:lasting')).default))`)
    await own.deploy(
      'reaching',
      `Deno.serve(() => fetch('${local.url}lasting').then(() => new Response('reached'), error => new Response(error.name)))`,
    )
    const before = local.requests
    assert.notEqual((await own.call('reaching')).text, 'reached')
    assert.equal(local.requests, before, 'functions do not reach the registry on this machine')
    await local.close()
    assert.equal((await own.call('lasting')).body, 'lasting')
    const stopped = () =>
      eventually(async () => (await quick.health()).workers === 0, 'the worker is stopped')
    await stopped()
    assert.equal((await own.call('later')).body, 'lasting')
    await stopped()
    const { codeDir } = locateFunctions(quick.platform.config.dataDir)
    fs.rmSync(join(codeDir, own.project.id), { recursive: true })
    const node = await startFunctionsPlatform({}, { beside: quick.platform })
    try {
      const there = functionsOf(node, own.project)
      for (const name of ['lasting', 'later']) assert.equal((await there.call(name)).body, 'lasting')
    } finally {
      await node.stop()
    }
    assert.deepEqual(await packagesOf(own, 'lasting'), ['lasting@1.0.0'])
  } finally {
    await quick.stop()
    await local.close()
    local.remove()
  }
})

test('packages: a registry that cannot be reached, or fails, is 502, and the version before still answers', async () => {
  const local = new Registry()
  local.add({ name: 'here', version: '1.0.0' }, { 'index.js': `module.exports = 'here'` })
  local.add({ name: 'gone', version: '1.0.0' }, { 'index.js': `module.exports = 'gone'` })
  await local.open()
  const node = await startFunctionsPlatform({ PLATFORM_NPM_REGISTRY: local.url })
  const failing = createServer((_, answer) => void answer.writeHead(503).end('try later'))
  try {
    const own = await node.createProject()
    await own.deploy('lasting', using('npm:here', 'it.default'))
    const port = Number(new URL(local.url).port)
    await local.close()
    const unreachable = async () => {
      const created = await own.manage('POST', '', { name: 'new', code: using('npm:gone', '1') })
      assertManagementError(created, 'registry_unreachable', /registry/)
      const updated = await own.manage('PUT', '/lasting', { code: using('npm:gone', '1') })
      assertManagementError(updated, 'registry_unreachable')
    }
    await unreachable()
    await new Promise<void>(resolve => failing.listen(port, '127.0.0.1', resolve))
    await unreachable()
    assertManagementError(await own.manage('GET', '/new'), 'function_not_found')
    assert.equal((await own.call('lasting')).body, 'here')
    assert.equal((await own.manage('GET', '/lasting')).body.version, 1)
    const changed = await own.manage('PUT', '/lasting', { code: saying('without packages') })
    assert.equal(changed.status, 200, changed.text)
    assert.equal((await own.call('lasting')).text, 'without packages')
  } finally {
    await node.stop()
    await local.close()
    failing.closeAllConnections()
    failing.close()
    local.remove()
  }
})
