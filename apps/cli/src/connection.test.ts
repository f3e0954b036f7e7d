import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { resolveProject, resolveTarget, resolveToken, type Sources } from './connection.ts'
import { Failure } from './failure.ts'
import { startTicksOf } from './local-platform.ts'

const cwd = mkdtempSync(join(tmpdir(), 'plinth-connection-'))
after(() => rmSync(cwd, { recursive: true }))
mkdirSync(join(cwd, '.plinth/data'), { recursive: true })

const write = (path: string, content: unknown) =>
  writeFileSync(join(cwd, path), typeof content === 'string' ? content : JSON.stringify(content))

interface Circumstances {
  values?: Record<string, string>
  environment?: Record<string, string>
}
const sources = ({ values = {}, environment = {} }: Circumstances = {}): Sources => ({
  given: { operands: {}, values, switches: new Set() },
  environment,
  cwd,
})
const target = (circumstances?: Circumstances) => resolveTarget(sources(circumstances))

test('connection: the URL is resolved in the order of the specification', () => {
  write('plinth.json', { environments: { staging: { url: 'https://staging.example.com/' } } })
  write('.plinth/link.json', { url: 'http://linked:1' })
  const all = {
    values: { url: 'http://flag:1', env: 'staging' },
    environment: { PLATFORM_URL: 'http://variable:1' },
  }
  assert.equal(target(all).url, 'http://flag:1')
  assert.equal(target({ ...all, values: { env: 'staging' } }).url, 'http://variable:1')
  assert.equal(target({ values: { env: 'staging' } }).url, 'https://staging.example.com')
  assert.equal(target().url, 'http://linked:1')
  rmSync(join(cwd, '.plinth/link.json'))
  const found = target({ environment: { PLATFORM_URL: '  ' } })
  assert.deepEqual([found.url, found.connectUrl], ['http://localhost:39001', 'http://127.0.0.1:39001'])
})

test('connection: an unknown environment fails with the list of known ones', () => {
  write('plinth.json', { environments: { staging: { url: 'https://a' }, production: { url: 'https://b' } } })
  assert.throws(() => target({ values: { env: 'prod' } }), /Known environments: staging, production/)
})

test('connection: an invalid file is named', () => {
  for (const content of ['{', '[]', { environments: { staging: {} } }, { environments: [] }]) {
    write('plinth.json', content)
    assert.throws(() => target({ values: { env: 'staging' } }), /plinth\.json/, JSON.stringify(content))
  }
  write('.plinth/link.json', { url: 7 })
  assert.throws(() => target(), /link\.json/)
  rmSync(join(cwd, '.plinth/link.json'))
})

test('connection: an invalid URL is rejected', () => {
  for (const url of ['localhost:39001', 'ftp://x', 'http://user:secret@x', 'http://x/?a=b', 'nonsense'])
    assert.throws(() => target({ values: { url } }), Failure, url)
})

test('connection: the token of the local platform is used only for that platform', () => {
  const local = target()
  write('.plinth/data/secrets.json', { PLATFORM_ADMIN_TOKEN: 'from the file' })
  assert.equal(resolveToken(sources(), local), null)
  write('.plinth/data/platform.json', { pid: process.pid, url: 'http://127.0.0.1:39001' })
  write('.plinth/data/platform.lock', { pid: process.pid, birth: 'another' })
  assert.equal(resolveToken(sources(), local), null)
  write('.plinth/data/platform.lock', { pid: process.pid, birth: startTicksOf(process.pid) })
  assert.equal(resolveToken(sources(), local)?.value, 'from the file')
  const at = (url: string) => resolveToken(sources(), target({ values: { url } }))?.value
  assert.equal(at('http://localhost:39001'), 'from the file')
  assert.equal(at('http://[::1]:39001/'), 'from the file')
  for (const url of ['http://localhost:39002', 'https://localhost:39001', 'http://example.com:39001'])
    assert.equal(at(url), undefined, url)
})

test('connection: a token from the environment comes first', () => {
  const of = (environment: Record<string, string>) => resolveToken(sources({ environment }), target())?.value
  assert.equal(of({ PLATFORM_TOKEN: 'mine', PLATFORM_ADMIN_TOKEN: 'root' }), 'mine')
  assert.equal(of({ PLATFORM_ADMIN_TOKEN: 'root' }), 'root')
  assert.equal(of({ DATABASE_URL: 'postgres://elsewhere' }), undefined)
})

test('connection: the linked project applies only to the linked platform', () => {
  write('.plinth/link.json', { url: 'http://linked:1/', project_id: 'p' })
  const project = (circumstances: Circumstances) =>
    resolveProject(sources(circumstances), target(circumstances))?.value
  assert.equal(project({}), 'p')
  assert.equal(project({ values: { url: 'http://linked:1' } }), 'p')
  assert.equal(project({ values: { url: 'http://other:1' } }), undefined)
  assert.equal(project({ environment: { PLATFORM_PROJECT: 'variable' } }), 'variable')
  const both = { values: { project: 'flag' }, environment: { PLATFORM_PROJECT: 'variable' } }
  assert.equal(project(both), 'flag')
})
