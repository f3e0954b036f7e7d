// Projects, their keys and secrets, with a real platform.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { type RunOptions, plinth as run, temporaryDirectory } from './plinth.ts'
import { recordingProxy } from './recording-proxy.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const cwd = temporaryDirectory()
const plinth = (args: string[], options: RunOptions = {}) => {
  const env = { PLATFORM_URL: platform.url, PLATFORM_TOKEN: platform.adminToken, ...options.env }
  return run(args, { cwd, ...options, env })
}
const auditOf = async (id: string) =>
  (await platform.admin.listAudit({ query: { project_id: id } })).entries.map(entry => entry.action)

test('projects: create, list, info, suspend, resume and delete', async () => {
  const made = await plinth(['projects', 'create', 'Corner Shop', '--slug', 'shop'])
  assert.equal(made.code, 0)
  const { id, slug, service_role_key, jwt_secret } = made.json.data
  assert.equal(slug, 'shop')
  assert.ok(service_role_key && jwt_secret)

  const { projects, total } = (await plinth(['project', 'list'])).json.data
  assert.equal(total, 1)
  assert.deepEqual(projects[0].id, id)
  assert.equal((await plinth(['projects', 'info', 'shop'])).json.data.name, 'Corner Shop')

  assert.equal((await plinth(['projects', 'suspend', id])).json.data.status, 'suspended')
  assert.equal((await plinth(['projects', 'list', '--status', 'active'])).json.data.total, 0)
  assert.equal((await plinth(['projects', 'resume', '--project', 'shop'])).json.data.status, 'active')

  const gone = await plinth(['projects', 'delete', 'shop', '--confirm', 'Corner Shop'])
  assert.deepEqual([gone.code, gone.json.data.deleted], [0, true])
  assert.equal((await plinth(['projects', 'info', id])).json.error.code, 'project_not_found')
})

test('projects create: the printed curl command works', async () => {
  const { stdout, stderr } = await plinth(['projects', 'create', 'curl me', '-o', 'text'])
  assert.match(stderr, /shown only now/)
  const call = /^ {2}curl (\S+) -H 'apikey: (\S+)'$/m.exec(stdout)
  const reply = await fetch(call![1]!, { headers: { apikey: call![2]! } })
  assert.equal(reply.status, 200)
})

test('projects delete: needs the slug or name as confirmation, and sends no DELETE on a mismatch', async () => {
  const { id, slug, name } = await platform.createProject()
  const proxy = await recordingProxy(platform.url)
  const env = { PLATFORM_URL: proxy.url }
  const wrong = await plinth(['projects', 'delete', slug, '--confirm', 'another'], { env })
  assert.deepEqual([wrong.code, wrong.json.error.code], [1, 'confirmation_mismatch'])
  const unasked = await plinth(['projects', 'delete', id], { env })
  assert.deepEqual([unasked.code, unasked.json.error.code], [1, 'confirmation_missing'])
  assert.match(unasked.json.error.suggestion, new RegExp(`--confirm ${slug}`))
  assert.deepEqual(
    proxy.requests.filter(line => !line.startsWith('GET ')),
    [],
  )
  assert.equal((await platform.projects.read({ params: { id } })).name, name)
  assert.equal((await plinth(['projects', 'delete', id, '--yes'], { env })).code, 0)
  assert.ok(proxy.requests.includes(`DELETE /api/v1/projects/${id}`))
})

test('projects keys: fetches the service_role key only with --show-service-role', async () => {
  const { id, anon_key, service_role_key } = await platform.createProject()
  const masked = await plinth(['projects', 'keys', id])
  assert.deepEqual(masked.json.data, { project_id: id, anon_key, service_role_key: null })
  const text = await plinth(['projects', 'keys', id, '-o', 'text'])
  assert.match(text.stdout, /service_role key +••••••••/)
  assert.ok(!(await auditOf(id)).includes('project.service_role_key_revealed'))

  const shown = await plinth(['projects', 'keys', id, '--show-service-role'])
  assert.equal(shown.json.data.service_role_key, service_role_key)
  assert.ok((await auditOf(id)).includes('project.service_role_key_revealed'))
})

test('secrets rotate: replaces the keys and the JWT secret', async () => {
  const { id, slug, anon_key, jwt_secret } = await platform.createProject()
  const keys = (await plinth(['secrets', 'rotate', 'api-keys', '--project', slug])).json.data
  assert.notEqual(keys.anon_key, anon_key)
  assert.equal((await platform.call('GET', `/v1/whoami/${id}`, { apikey: anon_key })).status, 401)
  assert.equal((await platform.call('GET', `/v1/whoami/${id}`, { apikey: keys.anon_key })).status, 200)
  const secret = (await plinth(['secrets', 'rotate', 'jwt', id])).json.data
  assert.ok(secret.jwt_secret && secret.jwt_secret !== jwt_secret)
})

test('projects: errors of the platform keep their code and get a suggestion', async () => {
  const { slug } = await platform.createProject()
  const taken = await plinth(['projects', 'create', 'again', '--slug', slug])
  assert.deepEqual([taken.code, taken.json.error.code], [1, 'slug_taken'])
  assert.match(taken.json.error.suggestion, /--slug/)
  const unnamed = await plinth(['projects', 'info'])
  assert.equal(unnamed.json.error.code, 'project_missing')
  const mistyped = await plinth(['projects', 'info', `${slug}x`])
  assert.deepEqual(
    [mistyped.json.error.code, mistyped.json.error.suggestion],
    ['project_not_found', `Did you mean ${slug}?`],
  )
})

test('status: shows the platform, and the project when one is named', async () => {
  const { id, slug, anon_key, api_url } = await platform.createProject()
  const bare = (await run(['status', '--url', platform.url], { cwd })).json.data
  assert.deepEqual([bare.status, bare.project, bare.keys], ['ok', null, null])
  const { project, urls, keys } = (await plinth(['status', '--project', slug])).json.data
  assert.deepEqual([project.id, urls.API_URL, keys], [id, api_url, { anon_key, service_role_key: null }])
  const text = await plinth(['status', '--project', slug, '-o', 'text'])
  assert.match(text.stdout, /╭─/)
  assert.ok(text.stdout.includes(`${api_url}/rest/v1`))
})

test('status: a shell can evaluate -o env', async () => {
  const { slug, anon_key, service_role_key, api_url } = await platform.createProject()
  const evaluated = (stdout: string) => {
    const script = `eval $(cat); printf '%s|%s|%s|%s' "$API_URL" "$REST_URL" "$ANON_KEY" "$SERVICE_ROLE_KEY"`
    return execFileSync('/bin/sh', ['-c', script], { input: stdout, encoding: 'utf8' })
  }
  const plain = await plinth(['status', '-o', 'env', '--project', slug])
  assert.equal(evaluated(plain.stdout), `${api_url}|${api_url}/rest/v1|${anon_key}|`)
  const whole = await plinth(['status', '-o', 'env', '--project', slug, '--show-service-role'])
  assert.equal(evaluated(whole.stdout), `${api_url}|${api_url}/rest/v1|${anon_key}|${service_role_key}`)
  const unnamed = await plinth(['status', '-o', 'env'])
  assert.deepEqual([unnamed.code, unnamed.stdout], [1, ''])
  assert.match(unnamed.stderr, /--project/)
})
