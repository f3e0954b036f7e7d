// 3 §4 "settings": invalid settings in PATCH and POST of a project.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject, unique } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
let id: string
before(async () => {
  it = await target()
  id = (await createProject(it, { settings: { theme: 'dark' } })).id
})
after(() => it.stop())

const patch = (settings: unknown) => it.manage('PATCH', `/projects/${id}`, { settings })
const stored = async () => (await it.manage('GET', `/projects/${id}`)).body.settings
const list = (length: number, first = 0) => Array.from({ length }, (_, i) => `s${first + i}`)

const wrong: [what: string, exposed_schemas: unknown, message: RegExp][] = [
  ['a text', 'public', /exposed_schemas must be a list/],
  ['a number', 5, /exposed_schemas must be a list/],
  ['an object', { 0: 'public' }, /exposed_schemas must be a list/],
  ['nothing in the list', [], /exposed_schemas must be a list of 1 to 50/],
  ['51 schemas', list(51), /exposed_schemas must be a list of 1 to 50/],
  ['a number in the list', ['public', 5], /exposed_schemas\[1\]/],
  ['null in the list', ['public', null], /exposed_schemas\[1\]/],
  ['a list in the list', [['public']], /exposed_schemas\[0\]/],
  ['an empty name', ['public', ''], /exposed_schemas\[1\]/],
  ['a blank name', ['  '], /exposed_schemas\[0\]/],
  ['a name with a blank before it', ['public', ' api'], /exposed_schemas\[1\]/],
  ['a name on two lines', ['a\nb'], /exposed_schemas\[0\]/],
  ['a NUL', ['a\u0000b'], /exposed_schemas\[0\]/],
  ['64 characters', ['public', 'x'.repeat(64)], /exposed_schemas\[1\].*63 bytes/],
  ['63 characters of 126 bytes', ['é'.repeat(63)], /exposed_schemas\[0\].*63 bytes/],
  ['a schema twice', ['public', 'api', 'public'], /exposed_schemas\[2\].*"public".*twice/],
  ['a schema of Postgres', ['public', 'pg_catalog'], /exposed_schemas\[1\].*pg_catalog/],
  ['a temporary schema', ['pg_temp_1'], /exposed_schemas\[0\].*pg_temp_1/],
  ['information_schema', ['information_schema'], /exposed_schemas\[0\].*information_schema/],
  ...(['platform', 'auth', 'storage', 'realtime', 'pgmq', 'extensions', 'supabase_migrations'].map(
    name =>
      [`the platform’s ${name}`, ['public', name], new RegExp(`exposed_schemas\\[1\\].*${name}`)] as const,
  ) as [string, unknown, RegExp][]),
]

for (const [what, exposed_schemas, message] of wrong)
  test(`3 §4 exposed_schemas: ${what} is 400 and changes nothing`, async () => {
    assertManagementError(await patch({ exposed_schemas, theme: 'light' }), 'invalid_request', message)
    assert.deepEqual(await stored(), { theme: 'dark' })
    const name = unique('never made')
    const created = await it.manage('POST', '/projects', { name, settings: { exposed_schemas } })
    assertManagementError(created, 'invalid_request', message)
  })

test('3 §4 exposed_schemas: 50 names of up to 63 bytes are valid, also of missing schemas; null removes them', async () => {
  for (const exposed_schemas of [
    ['public'],
    ['api', 'public', 'pgmq_public', 'graphql_public'],
    ['odd "one"', 'a b', 'é'.repeat(31), 'x'.repeat(63)],
    list(50),
  ]) {
    const reply = await patch({ exposed_schemas })
    assert.equal(reply.status, 200, reply.text)
    assert.deepEqual(reply.body.settings.exposed_schemas, exposed_schemas)
  }
  assert.deepEqual((await patch({ exposed_schemas: null })).body.settings, { theme: 'dark' })
})

test('3 §4 the settings of services are objects; anything else is 400 that names the key', async () => {
  for (const key of ['auth', 'smtp'])
    for (const value of ['nonsense', 5, true, ['a']])
      assertManagementError(
        await patch({ [key]: value, theme: 'light' }),
        'invalid_request',
        new RegExp(`settings.${key} must be an object`),
      )
  assert.deepEqual(await stored(), { theme: 'dark' })
  assert.equal((await patch({ auth: { min_password_length: 9 }, smtp: {} })).status, 200)
  assert.deepEqual((await patch({ auth: null, smtp: null })).body.settings, { theme: 'dark' })
})

test('3 §4 settings are bounded: 200 keys, names of 200 characters, 256 KiB in all', async () => {
  const { id: other } = await createProject(it)
  const change = (settings: unknown) => it.manage('PATCH', `/projects/${other}`, { settings })
  const keys = (length: number, first: number) =>
    Object.fromEntries(list(length, first).map(name => [name, 1]))
  assert.equal((await change(keys(150, 0))).status, 200)
  assertManagementError(await change(keys(51, 150)), 'invalid_request', /200 keys/)
  assert.equal((await change(keys(50, 150))).status, 200)
  assertManagementError(await change({ ['k'.repeat(201)]: 1 }), 'invalid_request', /200 characters/)
  const half = 'x'.repeat(131_072)
  assert.equal((await change({ s0: half })).status, 200)
  assertManagementError(await change({ s1: half }), 'invalid_request', /262144 bytes/)
  const { settings } = (await it.manage('GET', `/projects/${other}`)).body
  assert.deepEqual([Object.keys(settings).length, settings.s0.length, settings.s1], [200, 131_072, 1])
  // Changes that only remove or shrink keys are accepted.
  assert.equal((await change({ s0: null })).status, 200)
})
